"""Superseded versions that are old enough go; what is left is read honestly (docs/retention.md)."""

import asyncio
import json
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from urllib.parse import quote, unquote

import pytest

from statewright.cli.main import program
from statewright.ids import TenantId, model_id
from statewright.services.deletions import Pruner
from statewright.settings import Retention
from statewright.storage import deletion
from statewright.storage.connections import parse_database_url
from statewright.storage.pool import Pool
from tests.builders import Json, a_workflow, manual, when
from tests.commands import CommandRunner
from tests.database import connected
from tests.integration.history.test_point_in_time import micros, rfc3339
from tests.integration.ops.builders import ops_api
from tests.service import Api, RunningService, done, eventually, refused

NOTE = "note/1"
LIFECYCLE = a_workflow(OPEN=[manual("CLOSE", to="CLOSED")], CLOSED=[])


@pytest.fixture
def api(service: RunningService, tenant: str) -> Api:
    api = service.api(tenant, user_roles=["ROLE_ADMIN"])
    api.a_model(LIFECYCLE, model=NOTE, sample={"n": 1})
    return api


def a_history(api: Api, *, versions: int = 3, model: str = NOTE) -> tuple[str, list[str]]:
    """An entity, and when each of its versions began."""
    entity = api.create({"n": 0}, model=model).id
    for n in range(1, versions):
        api.update(entity, {"n": n})
    return entity, [change["timeOfChange"] for change in reversed(done(api.get(f"/entity/{entity}/changes")))]


def prune(api: Api, period: str = "1us", model: str = NOTE) -> Json:
    answer = done(api.post(f"/model/{model}/history/prune?olderThan={quote(period)}"))
    assert answer["complete"]
    return answer


def prune_before(api: Api, instant: str) -> Json:
    """What was superseded by then; a little later, since time goes on."""
    return prune(api, f"{time.time_ns() // 1000 - micros(instant)}us")


def at(instant: str) -> str:
    return f"pointInTime={quote(instant)}"


def test_what_was_superseded_long_ago_goes_and_the_rest_stays(api: Api) -> None:
    entity, instants = a_history(api)
    assert prune(api, "1h")["removed"] == 0
    assert prune(api)["removed"] == 2
    assert api.read(entity)["data"] == {"n": 2}
    assert api.read(entity, f"?{at(instants[2])}")["data"] == {"n": 2}
    assert [change["changeType"] for change in done(api.get(f"/entity/{entity}/changes"))] == ["UPDATE"]
    assert api.events(entity, done(api.get(f"/entity/{entity}/changes"))[0]["transactionId"])
    assert prune(api)["removed"] == 0


def test_every_read_of_a_removed_past_is_refused_and_never_answered_with_nothing(api: Api) -> None:
    entity, instants = a_history(api)
    kept_from = prune(api)["keptFrom"]
    then = at(instants[1])
    reads = [
        api.get(f"/entity/{entity}?{then}"),
        api.get(f"/entity/{entity}/changes?{then}"),
        api.get(f"/entity/{entity}/transitions?{then}"),
        api.get(f"/entity/{NOTE}?{then}"),
        api.post(f"/search/direct/{NOTE}?{then}", when("$.n", "NOT_NULL")),
        api.post(f"/search/{NOTE}?{then}", when("$.n", "NOT_NULL")),
        api.post(f"/entity/stats/{NOTE}/query", {"groupBy": ["state"], "pointInTime": instants[1]}),
        api.delete(f"/entity/{NOTE}?{then}", when("$.n", "NOT_NULL")),
        *(api.get(f"/entity/{stats}?{then}") for stats in ("stats", "stats/states")),
        *(api.get(f"/entity/{stats}/{NOTE}?{then}") for stats in ("stats", "stats/states")),
    ]
    for answer in reads:
        problem = refused(answer, 410, "HISTORY_PRUNED")
        assert problem["properties"].get("keptFrom", kept_from) == kept_from
    refused(api.get(f"/entity/{entity}?transactionId={entity}"), 404, "ENTITY_NOT_FOUND")
    assert api.read(entity)["data"] == {"n": 2}


def test_what_is_known_for_sure_is_answered_also_before_the_horizon(api: Api) -> None:
    """An entity that was not there yet, that was deleted, or that has not changed since."""
    entity, instants = a_history(api)
    gone = api.create({"n": 7}, model=NOTE).id
    done(api.delete(f"/entity/{gone}"))
    deleted = done(api.get(f"/entity/{gone}/changes"))[0]["timeOfChange"]
    still = api.create({"n": 8}, model=NOTE)
    created = api.read(still.id)["meta"]["creationDate"]
    prune(api)
    before = rfc3339(micros(instants[0]) - 1)
    refused(api.get(f"/entity/{entity}?pointInTime={before}"), 404, "ENTITY_NOT_FOUND")
    assert done(api.get(f"/entity/{entity}/changes?pointInTime={before}")) == []
    assert done(api.get(f"/entity/{NOTE}?pointInTime={before}")) == []
    refused(api.get(f"/entity/{gone}?{at(deleted)}"), 404, "ENTITY_NOT_FOUND")
    assert [change["changeType"] for change in done(api.get(f"/entity/{gone}/changes"))] == ["DELETE"]
    assert api.read(still.id, f"?{at(created)}")["data"] == {"n": 8}


def test_operators_are_told_of_a_removed_past_exactly_where_readers_are(
    service: RunningService, api: Api, tenant: str
) -> None:
    entity, instants = a_history(api, versions=5)
    gone, short = a_history(api, versions=3)
    done(api.delete(f"/entity/{gone}"))
    deleted = done(api.get(f"/entity/{gone}/changes"))[0]["timeOfChange"]
    prune_before(api, instants[3])
    prune_before(api, deleted)
    ops = ops_api(service, tenant, "ROLE_OPERATOR")
    statuses = {}
    for id_, moments in ((entity, instants), (gone, [*short, deleted])):
        for moment in (rfc3339(micros(moments[0]) - 1), *moments):
            told = api.get(f"/entity/{id_}?{at(moment)}").status_code
            name = quote(unquote(moment))
            answers = [ops.get(f"/entities/{id_}/explain?{at(moment)}"), ops.get(f"/entities/{id_}/diff?from={name}")]
            if id_ == entity:
                answers.append(ops.post(f"/entities/{id_}/restore", {"version": unquote(moment), "reason": "test"}))
            statuses[id_, moment] = (told == 410, *(answer.status_code == 410 for answer in answers))
    assert {len(set(each)) for each in statuses.values()} == {1}, statuses
    assert {each[0] for each in statuses.values()} == {True, False}
    refused(ops.get(f"/entities/{entity}/diff?from={quote(instants[0])}"), 410, "HISTORY_PRUNED")


def test_from_the_horizon_on_every_answer_is_the_one_given_before(api: Api) -> None:
    for _ in range(4):
        a_history(api, versions=4)
    doomed, _ = a_history(api)
    done(api.delete(f"/entity/{doomed}"))
    changes = [done(api.get(f"/entity/{e['meta']['id']}/changes")) for e in done(api.get(f"/entity/{NOTE}"))]
    instants = sorted(change["timeOfChange"] for history in changes for change in history)

    def answers(instant: str) -> list[Json]:
        query = {"groupBy": ["$.n", "state"], "pointInTime": instant}
        found = done(api.post(f"/search/{NOTE}?{at(instant)}", when("$.n", "NOT_NULL")))
        groups = done(api.post(f"/entity/stats/{NOTE}/query", query))
        return [done(api.get(f"/entity/{NOTE}?pageSize=1000&{at(instant)}")), found, groups]

    before = {instant: answers(instant) for instant in instants}
    kept_from = prune_before(api, instants[len(instants) // 2])["keptFrom"]
    later = [instant for instant in instants if micros(instant) >= micros(kept_from)]
    assert 0 < len(later) < len(instants)
    assert {instant: answers(instant) for instant in later} == {instant: before[instant] for instant in later}
    for instant in set(instants) - set(later):
        refused(api.post(f"/search/{NOTE}?{at(instant)}", when("$.n", "NOT_NULL")), 410, "HISTORY_PRUNED")
        listed = api.get(f"/entity/{NOTE}?pageSize=1000&{at(instant)}")
        assert listed.status_code == 410 or listed.json() == before[instant][0]


def test_models_and_tenants_are_pruned_apart(service: RunningService, api: Api) -> None:
    api.a_model(model="other/1", sample={"n": 1})
    stranger = service.api("tenant-of-somebody-else", user_roles=["ROLE_ADMIN"])
    if stranger.get(f"/model/export/SIMPLE_VIEW/{NOTE}").status_code == 404:
        stranger.a_model(model=NOTE, sample={"n": 1})
    kept = [(api, *a_history(api, model="other/1")), (stranger, *a_history(stranger))]
    a_history(api)
    assert prune(api)["removed"] == 2
    for owner, entity, instants in kept:
        assert owner.read(entity, f"?{at(instants[0])}")["data"] == {"n": 0}


def test_writers_and_pruners_do_not_hinder_each_other(api: Api) -> None:
    entities = [api.create({"n": 0}, model=NOTE).id for _ in range(6)]
    over = threading.Event()

    def write(entity: str) -> list[int]:
        return [api.put(f"/entity/JSON/{entity}", {"n": n}).status_code for n in range(1, 26)]

    def forget() -> int:
        removed = 0
        while not over.is_set():
            removed += prune(api)["removed"]
        return removed

    with ThreadPoolExecutor(len(entities) + 2) as pool:
        writing = [pool.submit(write, entity) for entity in entities]
        forgetting = [pool.submit(forget) for _ in range(2)]
        try:
            assert all(set(task.result()) == {200} for task in writing)
        finally:
            over.set()
        removed = sum(task.result() for task in forgetting)
    assert removed + prune(api)["removed"] == 25 * len(entities)
    assert {api.read(entity)["data"]["n"] for entity in entities} == {25}


async def test_a_row_that_somebody_has_locked_is_left_for_the_next_time(
    service: RunningService, api: Api, tenant: str
) -> None:
    entity, _ = await asyncio.to_thread(a_history, api)
    async with connected(service.database) as holder, holder.transaction():
        await holder.fetch("SELECT FROM entity_history WHERE id = $1 ORDER BY valid_from LIMIT 1 FOR UPDATE", entity)
        assert (await asyncio.to_thread(prune, api))["removed"] == 1
    assert (await asyncio.to_thread(prune, api))["removed"] == 1


def test_results_of_a_search_keep_their_versions(api: Api) -> None:
    entity, instants = a_history(api)
    job = done(api.post(f"/search/async/{NOTE}?{at(instants[1])}", when("$.n", "NOT_NULL")))
    status = f"/search/async/{job}/status"
    eventually(lambda: done(api.get(status))["searchJobStatus"] == "SUCCESSFUL", within_s=60)
    assert prune(api)["removed"] == 1, "the first version, which no result shows"
    [found] = done(api.get(f"/search/async/{job}"))["content"]
    assert (found["meta"]["id"], found["data"]) == (entity, {"n": 1})


def test_a_search_of_a_removed_past_fails_and_says_why(api: Api) -> None:
    _, instants = a_history(api)
    prune(api)
    job = done(api.post(f"/search/async/{NOTE}?{at(instants[0])}", when("$.n", "NOT_NULL")))
    status = f"/search/async/{job}/status"
    eventually(lambda: done(api.get(status))["searchJobStatus"] == "FAILED", within_s=60)
    assert "HISTORY_PRUNED" in done(api.get(f"/search/async/{job}/failure"))["reason"]


async def test_the_setting_is_kept_in_the_background(service: RunningService, api: Api, tenant: str) -> None:
    def histories() -> list[str]:
        api.a_model(model="ledger/1", sample={"n": 1})
        return [a_history(api, model=model)[0] for model in (NOTE, "ledger/1")]

    note, ledger = await asyncio.to_thread(histories)
    wanted = Retention(timedelta(microseconds=1), {"ledger/1": None})
    async with Pool(parse_database_url(service.database), size=2) as pool, connected(service.database) as tables:
        # Other tests of this worker share the tables: only this tenant's models are asked about.
        found = [one for one in await deletion.fetch_prunable(pool) if one.tenant == tenant]
        assert {one.key.name for one in found if one.key} == {"note", "ledger"}
        assert all(
            wanted.get_period(f"{one.key.name}/1") == (None if one.key.name == "ledger" else wanted.others)
            for one in found
            if one.key
        )
        assert await Pruner(pool, Retention(None, {"nobody's/1": timedelta(1)}), interval=timedelta(1)).run_once() == 0
        mine = Retention(None, {f"{NOTE}": timedelta(microseconds=1)})
        assert await Pruner(pool, mine, interval=timedelta(hours=1)).run_once() >= 2
        count = "SELECT count(*) FROM entity_history WHERE id = $1"
        assert await tables.fetchval(count, note) == 0
        assert await tables.fetchval(count, ledger) == 2


async def test_the_horizon_never_moves_back(service: RunningService, tenant: str) -> None:
    async with Pool(parse_database_url(service.database), size=1) as pool:
        moved = [
            await deletion.move_horizon(pool, TenantId(tenant), model_id("m", 1), period=period)
            for period in (timedelta(microseconds=1), timedelta(days=9))
        ]
    assert moved[0] == moved[1]


def test_pruning_is_for_administrators_and_wants_a_period(service: RunningService, api: Api, tenant: str) -> None:
    path = f"/model/{NOTE}/history/prune"
    refused(service.api(tenant).post(f"{path}?olderThan=90d"), 403, "FORBIDDEN")
    for period in ("", "soon", "0s", "-1d", "1.5d", "99999999999h"):
        problem = refused(api.post(f"{path}?olderThan={period}"), 400, "BAD_REQUEST")
        assert problem["properties"]["parameter"] == "olderThan"
    refused(api.post(path), 400, "BAD_REQUEST")
    refused(api.post("/model/nobody/1/history/prune?olderThan=1d"), 404, "MODEL_NOT_FOUND")
    trail = ops_api(service, tenant, "ROLE_OPERATOR")
    assert done(trail.get("/audit?action=history.prune"))["items"] == []
    a_history(api)
    done(api.post(f"{path}?olderThan=90d"))
    [act] = done(trail.get("/audit?action=history.prune"))["items"]
    assert (act["target"], act["details"]) == ({"kind": "MODEL", "id": NOTE}, {"olderThanSeconds": 90 * 86_400})


def test_the_command_prunes_a_model(service: RunningService, api: Api) -> None:
    a_history(api)
    run = CommandRunner().invoke(
        program, ["prune", NOTE, "--older-than", "1us", "--url", service.url, "--token", str(api.token)]
    )
    assert run.exit_code == 0, run.output
    assert run.stdout.startswith("2 versions removed; complete from 20")
    bad = CommandRunner().invoke(
        program, ["prune", NOTE, "--older-than", "soon", "--url", service.url, "--token", str(api.token)]
    )
    assert bad.exit_code == 1
    assert "olderThan" in bad.stderr


@pytest.mark.parametrize(
    ("text", "others", "models"),
    [
        ("90d", timedelta(days=90), {}),
        ("forever", None, {}),
        ("12h, a/1=7d,b b/2 = forever", timedelta(hours=12), {"a/1": timedelta(days=7), "b b/2": None}),
        ("a/1=1h30m", None, {"a/1": timedelta(minutes=90)}),
    ],
)
def test_the_setting_is_read(text: str, others: timedelta | None, models: dict[str, timedelta | None]) -> None:
    from statewright.settings import SETTINGS

    reader = SETTINGS["history_retention"].reader
    assert reader.read(text) == Retention(others, models)
    assert reader.read(reader.show(reader.read(text))) == Retention(others, models)


@pytest.mark.parametrize("text", ["soon", "0s", "a=1d", "=1d", "a/1=", json.dumps("1d")])
def test_a_setting_that_cannot_be_understood_is_refused(text: str) -> None:
    from statewright.settings import SETTINGS

    with pytest.raises(ValueError, match=r"is |names |must"):
        SETTINGS["history_retention"].reader.read(text)
