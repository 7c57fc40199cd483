"""A random history, replayed in memory, equals the database at every instant
(docs/reference/entities.md#points-in-time, decision S11).
"""

import asyncio
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from urllib.parse import quote
from uuid import uuid4

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.builders import Json, when
from tests.database import Template, connected
from tests.service import Api, RunningService, done, hosted

Snapshot = Mapping[str, Json]
"""Document by entity id: what is alive at an instant."""

PATH = "/entity/JSON/note/1"
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def an_api(service: RunningService) -> Api:
    """In a tenant that nobody has seen before."""
    api = service.api(f"tenant-{uuid4().hex[:12]}")
    api.a_model(model="note/1", sample={"n": 1})
    return api


def micros(text: str) -> int:
    return (datetime.fromisoformat(text) - EPOCH) // timedelta(microseconds=1)


def rfc3339(instant: int) -> str:
    return quote((EPOCH + timedelta(microseconds=instant)).isoformat())


def alive_at(api: Api, instant: int) -> Snapshot:
    """What the list says was alive, after comparing it with a search and with single reads."""
    at = rfc3339(instant)
    listed = {e["meta"]["id"]: e["data"] for e in done(api.get(f"/entity/note/1?pageSize=1000&pointInTime={at}"))}
    condition = when("$.n", "NOT_NULL")
    found = done(api.post(f"/search/note/1?pointInTime={at}&limit=1000", condition))
    assert {e["meta"]["id"]: e["data"] for e in found} == listed
    for entity, document in listed.items():
        assert api.read(entity, f"?pointInTime={at}")["data"] == document
    return listed


# One step of a history: what it does to the entities alive before it.
Step = Callable[[Api, dict[str, Json], int], None]


def create(api: Api, alive: dict[str, Json], n: int) -> None:
    alive[api.create({"n": n}, model="note/1").id] = {"n": n}


def create_many(api: Api, alive: dict[str, Json], n: int) -> None:
    [result] = done(api.post(PATH, [{"n": n}, {"n": n + 1}]))
    alive |= {entity: {"n": n + offset} for offset, entity in enumerate(result["entityIds"])}


def update(api: Api, alive: dict[str, Json], n: int) -> None:
    if alive:
        entity = sorted(alive)[n % len(alive)]
        api.update(entity, {"n": n})
        alive[entity] = {"n": n}


def update_all(api: Api, alive: dict[str, Json], n: int) -> None:
    if alive:
        done(api.put("/entity/JSON", [{"id": entity, "payload": f'{{"n":{n}}}'} for entity in alive]))
        alive |= {entity: {"n": n} for entity in alive}


def delete(api: Api, alive: dict[str, Json], n: int) -> None:
    if alive:
        entity = sorted(alive)[n % len(alive)]
        done(api.delete(f"/entity/{entity}"))
        del alive[entity]


def delete_some(api: Api, alive: dict[str, Json], n: int) -> None:
    done(api.delete("/entity/note/1", when("$.n", "LESS_THAN", n)))
    for entity in [entity for entity, document in alive.items() if document["n"] < n]:
        del alive[entity]


STEPS: tuple[Step, ...] = (create, create_many, update, update_all, delete, delete_some)


@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    history=st.lists(st.tuples(st.sampled_from([create, update, *STEPS]), st.integers(0, 20)), min_size=1, max_size=12)
)
def test_a_replayed_history_equals_the_database_at_every_instant(
    service: RunningService, history: list[tuple[Step, int]]
) -> None:
    api = an_api(service)
    alive: dict[str, Json] = {}
    ever: set[str] = set()
    moments: list[tuple[int, Snapshot]] = []
    for step, n in history:
        step(api, alive, n)
        ever |= set(alive)
        moments.append((newest_instant(api, ever), dict(alive)))
    for (instant, expected), (following, _) in pairwise([*moments, (2**62, {})]):
        assert alive_at(api, instant) == expected
        if instant < following < 2**62:
            assert alive_at(api, following - 1) == expected
    first = min(instant for instant, _ in moments)
    assert alive_at(api, first - 1) == {} or not ever


def newest_instant(api: Api, ever: set[str]) -> int:
    """When the last step wrote; the time of day when it wrote nothing yet."""
    times = [done(api.get(f"/entity/{entity}/changes"))[0]["timeOfChange"] for entity in ever]
    return max(map(micros, times), default=(datetime.now(UTC) - EPOCH) // timedelta(microseconds=1))


SLOW_COMMITS = """
    CREATE FUNCTION dawdle() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM pg_sleep(0.01); RETURN NULL; END';
    CREATE CONSTRAINT TRIGGER dawdle AFTER INSERT ON entity_history DEFERRABLE INITIALLY DEFERRED
       FOR EACH ROW EXECUTE FUNCTION dawdle();
"""
"""Between a version's instant and its being visible there are at least 10 ms now, as on a slow disk."""


@pytest.fixture
def slow_service(database_template: Template) -> Iterator[RunningService]:
    with hosted(database_template.clone()) as running:
        asyncio.run(executed(running.database, SLOW_COMMITS))
        yield running


async def executed(url: str, statements: str) -> None:
    async with connected(url) as connection:
        await connection.execute(statements)


def test_what_was_told_of_an_instant_while_others_write_is_told_again_later(slow_service: RunningService) -> None:
    api = an_api(slow_service)
    entities = [api.create({"n": 0}, model="note/1").id for _ in range(4)]
    reads: list[tuple[int, str]] = []

    def write(n: int) -> None:
        assert api.put(f"/entity/JSON/{entities[n % 4]}", {"n": n}).status_code in (200, 409)

    def read(_: int) -> None:
        instant = (datetime.now(UTC) - EPOCH) // timedelta(microseconds=1)
        reads.append((instant, api.get(f"/entity/note/1?pointInTime={rfc3339(instant)}").text))

    with ThreadPoolExecutor(4) as writers, ThreadPoolExecutor(4) as readers:
        writing = [writers.submit(write, n) for n in range(60)]
        reading = [readers.submit(read, n) for n in range(60)]
        for task in (*writing, *reading):
            task.result()
    again = [api.get(f"/entity/note/1?pointInTime={rfc3339(instant)}").text for instant, _ in reads]
    assert again == [text for _, text in reads]
