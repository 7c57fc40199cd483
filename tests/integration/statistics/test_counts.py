"""Counting entities (docs/reference/entities.md#counts)."""

import pytest

from statewright.sdk import Node
from tests.builders import SAMPLE, Json, a_processor, a_workflow, automated, manual
from tests.service import Api, RunningService, done, refused

ALL, BY_STATE = "/entity/stats", "/entity/stats/states"


def rows(answer: Json) -> list[tuple[Json, ...]]:
    """Order is unspecified: sorted by everything."""
    names = ("modelName", "modelVersion", "state", "count")
    return sorted(tuple(row[name] for name in names if name in row) for row in answer)


def a_two_state_model(api: Api, model: str = "prize/1") -> str:
    return api.a_model(a_workflow(NEW=[manual("APPROVE", to="APPROVED")], APPROVED=[]), model=model)


def test_a_tenant_without_models_has_no_rows(api: Api) -> None:
    assert done(api.get(ALL)) == done(api.get(BY_STATE)) == []


def test_every_registered_model_has_a_row_also_without_entities_and_unlocked(api: Api) -> None:
    api.import_model("draft/1")
    api.a_model(model="empty/2")
    api.a_model(model="prize/1")
    api.create(), api.create()
    assert rows(done(api.get(ALL))) == [("draft", 1, 0), ("empty", 2, 0), ("prize", 1, 2)]


def test_a_row_has_exactly_the_specified_members(api: Api) -> None:
    api.a_model()
    api.create()
    response = api.get(ALL)
    assert response.headers["content-type"] == "application/json"
    assert response.text == '[{"count":1,"modelName":"prize","modelVersion":1}]\n'
    assert api.get(f"{ALL}/prize/1").text == '{"count":1,"modelName":"prize","modelVersion":1}\n'
    by_state = '[{"count":1,"modelName":"prize","modelVersion":1,"state":"CREATED"}]\n'
    assert api.get(BY_STATE).text == api.get(f"{BY_STATE}/prize/1").text == by_state


def test_one_model_is_counted_alone(api: Api) -> None:
    api.a_model(model="prize/1")
    api.a_model(model="prize/2")
    api.create(model="prize/2")
    assert done(api.get(f"{ALL}/prize/1"))["count"] == 0
    assert done(api.get(f"{ALL}/prize/2")) == {"modelName": "prize", "modelVersion": 2, "count": 1}


def test_states_without_entities_have_no_row(api: Api) -> None:
    a_two_state_model(api)
    api.create()
    api.update(api.create().id, fire="APPROVE")
    api.update(api.create().id, fire="APPROVE")
    api.a_model(model="empty/1")
    assert rows(done(api.get(BY_STATE))) == [("prize", 1, "APPROVED", 2), ("prize", 1, "NEW", 1)]
    assert done(api.get(f"{BY_STATE}/empty/1")) == []


def test_repeated_states_restrict_and_an_absent_state_yields_no_zero_row(api: Api) -> None:
    a_two_state_model(api)
    api.create()
    api.update(api.create().id, fire="APPROVE")
    assert rows(done(api.get(f"{BY_STATE}?states=NEW&states=LOST"))) == [("prize", 1, "NEW", 1)]
    assert rows(done(api.get(f"{BY_STATE}/prize/1?states=NEW&states=APPROVED"))) == [
        ("prize", 1, "APPROVED", 1),
        ("prize", 1, "NEW", 1),
    ]


def test_a_comma_separates_no_states(api: Api) -> None:
    a_two_state_model(api)
    api.create()
    assert done(api.get(f"{BY_STATE}?states=NEW,APPROVED")) == []


def test_a_thousand_states_are_accepted_and_one_more_is_refused(api: Api) -> None:
    a_two_state_model(api)
    api.create()
    thousand = "&".join(["states=NEW", *(f"states=S{n}" for n in range(999))])
    assert rows(done(api.get(f"{BY_STATE}?{thousand}"))) == [("prize", 1, "NEW", 1)]
    refused(api.get(f"{BY_STATE}?{thousand}&states=X"), 400, "BAD_REQUEST")
    # The limit is checked before the model.
    refused(api.get(f"{BY_STATE}/unknown/1?{thousand}&states=X"), 400, "BAD_REQUEST")


@pytest.mark.parametrize("path", [ALL, BY_STATE])
def test_an_unknown_model_is_not_found(api: Api, path: str) -> None:
    problem = refused(api.get(f"{path}/unknown/1"), 404, "MODEL_NOT_FOUND")
    assert problem["properties"] == {"errorCode": "MODEL_NOT_FOUND"}


@pytest.mark.parametrize("path", [ALL, BY_STATE])
@pytest.mark.parametrize("version", ["x", "1.0", "99999999999"])
def test_a_version_that_is_no_int32_does_not_bind(api: Api, path: str, version: str) -> None:
    problem = refused(api.get(f"{path}/prize/{version}"), 400, "BAD_REQUEST")
    assert problem["properties"]["parameter"] == "modelVersion"


@pytest.mark.parametrize("path", [ALL, BY_STATE, f"{ALL}/prize/1", f"{BY_STATE}/prize/1"])
def test_an_instant_must_be_one_and_counts_what_was_then(api: Api, path: str) -> None:
    """Decision S17."""
    api.a_model()
    api.create()
    assert api.get(f"{path}?pointInTime=2999-01-01T00:00:00Z").text == api.get(path).text
    then = done(api.get(f"{path}?pointInTime=2001-01-01T00:00:00Z"))
    assert then == [] if path.startswith(BY_STATE) else rows(then if path == ALL else [then]) == [("prize", 1, 0)]
    problem = refused(api.get(f"{path}?pointInTime=yesterday"), 400, "BAD_REQUEST")
    assert problem["properties"]["parameter"] == "pointInTime"


def test_deleted_entities_do_not_count(api: Api) -> None:
    api.a_model()
    api.create()
    done(api.delete(f"/entity/{api.create().id}"))
    assert done(api.get(f"{ALL}/prize/1"))["count"] == 1
    assert rows(done(api.get(BY_STATE))) == [("prize", 1, "CREATED", 1)]


def test_an_entity_counts_once_however_many_versions_it_has(api: Api) -> None:
    api.a_model()
    entity = api.create().id
    api.update(entity), api.update(entity)
    assert done(api.get(f"{ALL}/prize/1"))["count"] == 1


def test_other_tenants_are_not_counted(service: RunningService, api: Api, tenant: str) -> None:
    api.a_model()
    api.create()
    other = service.api(f"{tenant}-other")
    assert done(other.get(ALL)) == done(other.get(BY_STATE)) == []
    refused(other.get(f"{ALL}/prize/1"), 404, "MODEL_NOT_FOUND")
    other.a_model()
    assert done(other.get(f"{ALL}/prize/1"))["count"] == 0


def test_models_called_stats_and_states_are_reachable(api: Api) -> None:
    for model in ("stats/1", "states/1"):
        api.a_model(model=model)
        api.create(model=model)
    assert len(done(api.get("/entity/stats/1"))) == 1
    assert done(api.get(f"{ALL}/stats/1"))["count"] == 1
    assert done(api.get(f"{ALL}/states/1")) == {"modelName": "states", "modelVersion": 1, "count": 1}
    assert rows(done(api.get(f"{BY_STATE}/states/1"))) == [("states", 1, "CREATED", 1)]


def test_a_callback_counts_what_its_transaction_has_written(api: Api, serving, callback) -> None:
    api.a_model(model="note/1", sample={"text": ""})
    node, seen = Node(tags=["node"]), {}
    kept, dropped = (api.create({"text": "x"}, model="note/1").id for _ in range(2))

    @node.processor("enrich")
    def enrich(document, context):
        joined = callback(context)
        joined.create({"text": "y"}, model="note/1")
        joined.create({"text": "z"}, model="note/1")
        done(joined.delete(f"/entity/{dropped}"))
        joined.update(kept, {"text": "again"})
        seen["inside"] = done(joined.get(f"{ALL}/note/1"))["count"], rows(done(joined.get(f"{BY_STATE}/note/1")))
        seen["all"] = rows(done(joined.get(ALL)))
        seen["outside"] = done(api.get(f"{ALL}/note/1"))["count"]

    serving(node)
    model = api.a_model(a_workflow(NEW=[automated("GO", to="DONE", processors=[a_processor()])], DONE=[]))
    api.create(SAMPLE, model=model)
    assert seen["inside"] == (3, [("note", 1, "CREATED", 3)])
    assert ("note", 1, 3) in seen["all"]
    assert seen["outside"] == 2
    assert done(api.get(f"{ALL}/note/1"))["count"] == 3


@pytest.mark.parametrize("path", [BY_STATE, f"{BY_STATE}/prize/1"])
def test_a_state_with_a_nul_does_not_bind(api: Api, path: str) -> None:
    api.a_model()
    problem = refused(api.get(f"{path}?states=NEW&states=a%00"), 400, "BAD_REQUEST")
    assert problem["properties"]["parameter"] == "states"


def test_the_past_is_counted_with_the_states_of_then(api: Api) -> None:
    """Decision S17: changed and deleted entities count as what they were."""
    a_two_state_model(api)
    api.a_model(model="other/1")
    first = api.create().id
    created = api.read(first)["meta"]["creationDate"]
    api.update(first, fire="APPROVE")
    approved = api.read(first)["meta"]["lastUpdateTime"]
    both = api.read(api.create().id)["meta"]["creationDate"]
    done(api.delete(f"/entity/{first}"))

    def counted(instant: str) -> tuple[int, list[tuple[Json, ...]]]:
        query = f"pointInTime={instant}"
        one, by_state = done(api.get(f"{ALL}/prize/1?{query}")), rows(done(api.get(f"{BY_STATE}/prize/1?{query}")))
        assert rows(done(api.get(f"{ALL}?{query}"))) == [("other", 1, 0), ("prize", 1, one["count"])]
        assert rows(done(api.get(f"{BY_STATE}?{query}"))) == by_state
        return one["count"], [(state, count) for _, _, state, count in by_state]

    assert counted(created) == (1, [("NEW", 1)])
    assert counted(approved) == (1, [("APPROVED", 1)])
    assert counted(both) == (2, [("APPROVED", 1), ("NEW", 1)])
    assert done(api.get(f"{ALL}/prize/1"))["count"] == 1
    [new] = done(api.get(f"{BY_STATE}/prize/1?states=NEW&pointInTime={both}"))
    assert (new["state"], new["count"]) == ("NEW", 1)
