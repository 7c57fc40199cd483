"""Reading and listing entities, now and in the past (docs/reference/entities.md#read,
docs/reference/entities.md#points-in-time, decisions S10, S11).
"""

import secrets
from datetime import datetime, timedelta, timezone
from itertools import pairwise

import pytest

from tests.builders import SAMPLE, Json, a_workflow, manual
from tests.service import Api, done, refused

UNKNOWN = "00000000-0000-1000-8000-000000000000"
STEPS = a_workflow(New=[manual("GO", to="Gone")], Gone=[])


def moved_by(instant: str, **delta: int) -> str:
    """An instant as a query parameter, so much later."""
    moment = datetime.fromisoformat(instant) + timedelta(**delta)
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def a_life(api: Api) -> tuple[str, list[Json]]:
    """An entity that was created, changed, moved and deleted; its history, oldest first."""
    api.a_model(STEPS)
    entity = api.create({"year": 1}).id
    api.update(entity, {"year": 2})
    api.update(entity, {"year": 3}, fire="GO")
    done(api.delete(f"/entity/{entity}"))
    return entity, list(reversed(done(api.get(f"/entity/{entity}/changes"))))


def years(envelopes: list[Json]) -> list[int]:
    return [envelope["data"]["year"] for envelope in envelopes]


def test_an_unknown_entity_is_named(api: Api) -> None:
    problem = refused(api.get(f"/entity/{UNKNOWN}"), 404, "ENTITY_NOT_FOUND")
    assert problem["properties"] == {"errorCode": "ENTITY_NOT_FOUND", "entityId": UNKNOWN}
    assert problem["instance"] == f"/api/entity/{UNKNOWN}"
    assert problem["title"] == "Not Found"


def test_an_id_may_be_written_in_four_ways(api: Api) -> None:
    api.a_model()
    entity = api.create().id
    plain = entity.replace("-", "")
    for spelling in (entity.upper(), plain, plain.upper(), f"%7B{entity}%7D", f"urn:uuid:{entity}"):
        assert api.read(spelling)["meta"]["id"] == entity


@pytest.mark.parametrize(
    "text", ["x", "1", f"{UNKNOWN}0", UNKNOWN[:-1], "g0000000-0000-1000-8000-000000000000", "%20" + UNKNOWN]
)
def test_an_id_that_is_none_does_not_bind(api: Api, text: str) -> None:
    for response in (
        api.get(f"/entity/{text}"),
        api.put(f"/entity/JSON/{text}", "{}"),
        api.delete(f"/entity/{text}"),
        api.get(f"/entity/{text}/changes"),
        api.get(f"/audit/entity/{text}"),
        api.get(f"/audit/entity/{text}/workflow/{UNKNOWN}/finished"),
    ):
        problem = refused(response, 400, "BAD_REQUEST")
        assert problem["detail"] == "BAD_REQUEST: invalid value for parameter 'entityId': not a UUID"
        assert problem["properties"] == {"errorCode": "BAD_REQUEST", "parameter": "entityId"}


def test_every_version_is_valid_from_its_own_instant_until_the_next(api: Api) -> None:
    entity, history = a_life(api)
    for version, successor in pairwise(history):
        own = api.read(entity, f"?transactionId={version['transactionId']}")
        assert own["meta"]["lastUpdateTime"] == version["timeOfChange"]
        assert api.read(entity, f"?pointInTime={version['timeOfChange']}") == own
        assert api.read(entity, f"?pointInTime={moved_by(successor['timeOfChange'], microseconds=-1)}") == own


def test_there_is_nothing_before_creation_and_from_deletion_on(api: Api) -> None:
    entity, history = a_life(api)
    first, last = history[0]["timeOfChange"], history[-1]["timeOfChange"]
    for instant in (moved_by(first, microseconds=-1), last, moved_by(last, days=1)):
        problem = refused(api.get(f"/entity/{entity}?pointInTime={instant}"), 404, "ENTITY_NOT_FOUND")
        assert problem["properties"]["entityId"] == entity


def test_a_time_to_come_is_like_now(api: Api) -> None:
    api.a_model()
    entity = api.create().id
    assert api.read(entity, "?pointInTime=2999-01-01T00:00:00Z") == api.read(entity)


def test_reading_the_past_shows_state_and_metadata_of_that_time(api: Api) -> None:
    entity, history = a_life(api)
    versions = [api.read(entity, f"?pointInTime={change['timeOfChange']}") for change in history[:3]]
    assert years(versions) == [1, 2, 3]
    assert [version["meta"]["state"] for version in versions] == ["New", "New", "Gone"]
    assert [version["meta"]["transitionForLatestSave"] for version in versions] == ["loopback", "loopback", "GO"]
    assert len({version["meta"]["creationDate"] for version in versions}) == 1
    assert not any("pointInTime" in version["meta"] for version in versions)


def test_transactions_that_wrote_no_version_of_the_entity_address_none(api: Api) -> None:
    entity, _ = a_life(api)
    other = api.create({"year": 9})
    refused(api.get(f"/entity/{entity}?transactionId={other.transaction}"), 404, "ENTITY_NOT_FOUND")
    refused(api.get(f"/entity/{entity}?transactionId={UNKNOWN}"), 404, "ENTITY_NOT_FOUND")


def test_the_transaction_of_a_deletion_addresses_no_version(api: Api) -> None:
    api.a_model()
    entity = api.create().id
    deletion = done(api.delete(f"/entity/{entity}"))["transactionId"]
    refused(api.get(f"/entity/{entity}?transactionId={deletion}"), 404, "ENTITY_NOT_FOUND")


def test_two_scopes_at_once_are_refused_before_the_entity_is_looked_up(api: Api) -> None:
    query = f"?pointInTime=2024-01-01T00:00:00Z&transactionId={UNKNOWN}"
    refused(api.get(f"/entity/{UNKNOWN}{query}"), 400, "BAD_REQUEST")


@pytest.mark.parametrize(
    "spelling", ["{0}Z", "{0}%2B00:00", "{0}", "{0}+00:00", "{0} 00:00", "{0}-00:00", "{0}000Z", "{0}z"]
)
def test_an_instant_in_utc_has_many_spellings(api: Api, spelling: str) -> None:
    entity, history = a_life(api)
    instant = moved_by(history[1]["timeOfChange"])[:-1]
    assert years([api.read(entity, f"?pointInTime={spelling.format(instant)}")]) == [2]


def test_an_instant_may_have_any_offset(api: Api) -> None:
    entity, history = a_life(api)
    there = datetime.fromisoformat(history[1]["timeOfChange"]).astimezone(timezone(timedelta(hours=5, minutes=30)))
    assert years([api.read(entity, f"?pointInTime={there.isoformat().replace('+', '%2B')}")]) == [2]


def test_a_bare_date_is_midnight(api: Api) -> None:
    entity, history = a_life(api)
    today = history[0]["timeOfChange"][:10]
    refused(api.get(f"/entity/{entity}?pointInTime={today}"), 404, "ENTITY_NOT_FOUND")


@pytest.mark.parametrize(
    "text", ["", "now", "2024-13-01T00:00:00Z", "2024-02-30T00:00:00Z", "1700000000", "2024-01-01T25:00:00Z"]
)
def test_a_time_that_is_none_does_not_bind(api: Api, text: str) -> None:
    for path in (f"/entity/{UNKNOWN}", "/entity/prize/1", f"/entity/{UNKNOWN}/changes"):
        problem = refused(api.get(f"{path}?pointInTime={text}"), 400, "BAD_REQUEST")
        assert problem["properties"] == {"errorCode": "BAD_REQUEST", "parameter": "pointInTime"}


def test_a_transaction_id_that_is_none_does_not_bind(api: Api) -> None:
    problem = refused(api.get(f"/entity/{UNKNOWN}?transactionId=x"), 400, "BAD_REQUEST")
    assert problem["properties"]["parameter"] == "transactionId"


def test_a_single_valued_parameter_may_be_given_once_only_and_unknown_ones_as_often_as_you_like(api: Api) -> None:
    api.a_model()
    entity = api.create().id
    instant = "pointInTime=2999-01-01T00:00:00Z"
    problem = refused(api.get(f"/entity/{entity}?{instant}&{instant}"), 400, "BAD_REQUEST")
    assert problem["properties"]["parameter"] == "pointInTime"
    done(api.get(f"/entity/{entity}?surplus=1&surplus=2&transactional=true"))


# Lists


def test_a_list_is_in_ascending_order_of_id_and_complete(api: Api) -> None:
    api.a_model()
    created = [api.create({"year": year}).id for year in range(25)]
    listed = [envelope["meta"]["id"] for envelope in done(api.get("/entity/prize/1?pageSize=100"))]
    assert listed == sorted(created)


def test_a_listed_envelope_is_the_one_that_reading_it_gives(api: Api) -> None:
    api.a_model()
    entity = api.create().id
    assert api.get("/entity/prize/1").text == f"[{api.get(f'/entity/{entity}').text[:-1]}]\n"


def test_pages_have_twenty_entities_unless_told_otherwise_and_do_not_overlap(api: Api) -> None:
    api.a_model()
    created = sorted(api.create({"year": year}).id for year in range(23))

    def page(query: str) -> list[str]:
        return [envelope["meta"]["id"] for envelope in done(api.get(f"/entity/prize/1{query}"))]

    assert page("") == created[:20]
    assert page("?pageNumber=1") == created[20:]
    assert page("?pageSize=10&pageNumber=2") == created[20:]
    assert page("?pageSize=10&pageNumber=3") == []
    assert page("?pageSize=0") == []
    assert page("?pageSize=10000&pageNumber=214748") == []


@pytest.mark.parametrize(
    "query", ["pageSize=-1", "pageSize=10001", "pageNumber=-1", "pageNumber=214749", "pageSize=0&pageNumber=-1"]
)
def test_limits_of_pages_are_checked_before_the_model(api: Api, query: str) -> None:
    refused(api.get(f"/entity/prize/1?{query}"), 400, "BAD_REQUEST")


@pytest.mark.parametrize("text", ["x", "1.0", "", "2147483648", "1e3", "１"])
def test_a_page_number_that_is_no_int32_does_not_bind(api: Api, text: str) -> None:
    problem = refused(api.get(f"/entity/prize/1?pageNumber={text}"), 400, "BAD_REQUEST")
    assert problem["properties"]["parameter"] == "pageNumber"


def test_a_list_of_an_unknown_model_is_refused(api: Api) -> None:
    problem = refused(api.get("/entity/prize/1?pageSize=0"), 404, "MODEL_NOT_FOUND")
    assert problem["properties"] == {"errorCode": "MODEL_NOT_FOUND"}


def test_a_model_that_was_never_locked_lists_nothing(api: Api) -> None:
    api.import_model()
    assert done(api.get("/entity/prize/1")) == []


def test_a_model_called_stats_can_be_listed(api: Api) -> None:
    api.a_model(model="stats/1")
    entity = api.create(model="stats/1").id
    assert [envelope["meta"]["id"] for envelope in done(api.get("/entity/stats/1"))] == [entity]


def test_a_list_of_the_past_shows_what_was_valid_then_and_echoes_the_time(api: Api) -> None:
    api.a_model(STEPS)
    kept, changed, deleted = (api.create({"year": year}).id for year in (1, 2, 3))
    before = api.read(deleted)["meta"]["creationDate"]
    api.update(changed, {"year": 20}, fire="GO")
    done(api.delete(f"/entity/{deleted}"))
    later = api.create({"year": 4}).id
    assert [e["meta"]["id"] for e in done(api.get("/entity/prize/1"))] == sorted([kept, changed, later])
    past = done(api.get(f"/entity/prize/1?pointInTime={before}"))
    assert [e["meta"]["id"] for e in past] == sorted([kept, changed, deleted])
    assert {e["meta"]["pointInTime"] for e in past} == {before}
    assert sorted(years(past)) == [1, 2, 3]
    assert {e["meta"]["state"] for e in past} == {"New"}


def test_a_list_of_the_past_is_paged_like_any_other(api: Api) -> None:
    api.a_model()
    created = sorted(api.create({"year": year}).id for year in range(9))
    for entity in created[::2]:
        api.update(entity, {"year": 100})
    for entity in created[::3]:
        done(api.delete(f"/entity/{entity}"))
    instant = max(
        api.read(entity, "?pointInTime=" + changed(api, entity))["meta"]["creationDate"] for entity in created
    )
    pages = [done(api.get(f"/entity/prize/1?pointInTime={instant}&pageSize=4&pageNumber={n}")) for n in range(4)]
    assert [[e["meta"]["id"] for e in page] for page in pages] == [created[:4], created[4:8], created[8:], []]


def changed(api: Api, entity: str) -> str:
    """When the entity was created."""
    return str(done(api.get(f"/entity/{entity}/changes"))[-1]["timeOfChange"])


def test_an_instant_at_the_end_of_all_calendars_breaks_nothing(api: Api) -> None:
    api.a_model()
    api.create()
    assert api.get("/entity/prize/1?pointInTime=9999-12-31T23:59:59-23:59").status_code in {200, 400}


@pytest.mark.parametrize("offset", ["%2B24:00", "-99:99", "%2B01:60"])
def test_an_offset_that_no_clock_has_does_not_bind(api: Api, offset: str) -> None:
    problem = refused(api.get(f"/entity/prize/1?pointInTime=2024-01-01T00:00:00{offset}"), 400, "BAD_REQUEST")
    assert problem["properties"]["parameter"] == "pointInTime"


def test_the_echoed_time_is_normalised_to_utc(api: Api) -> None:
    api.a_model()
    api.create()
    [envelope] = done(api.get("/entity/prize/1?pointInTime=2999-01-01T05:30:00.500%2B05:30"))
    assert envelope["meta"]["pointInTime"] == "2999-01-01T00:00:00.5Z"


def test_the_sample_reads_as_it_was_written(api: Api) -> None:
    api.a_model()
    assert api.read(api.create(SAMPLE).id)["data"] == SAMPLE


def test_a_page_of_large_documents_arrives_whole_and_in_parts(api: Api) -> None:
    model = api.a_model(sample={"text": "x"}, model="large/1")
    kept = sorted(api.create({"text": secrets.token_hex(200_000)}, model=model).id for _ in range(12))
    answer = api.get(f"/entity/{model}?pageSize=11")
    assert "content-length" not in answer.headers
    assert [entity["meta"]["id"] for entity in done(answer)] == kept[:11]
    rest = done(api.get(f"/entity/{model}?pageSize=11&afterId={kept[2]}"))
    assert [entity["meta"]["id"] for entity in rest] == kept[3:]
    at = done(api.get(f"/entity/{kept[-1]}"))["meta"]["lastUpdateTime"]
    past = done(api.get(f"/entity/{model}?pageSize=10000&pointInTime={at}"))
    assert {entity["meta"]["id"] for entity in past} <= set(kept)
    assert len(past) > 1
