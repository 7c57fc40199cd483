"""A service that is killed, and a database that is cut off, in the middle of runs of every execution mode.

The outcomes are the table of docs/transactions.md.
"""

import asyncio
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import httpx
import pytest

from tests.builders import SAMPLE, a_processor, a_workflow, automated, manual
from tests.database import Template, kept_open
from tests.e2e.faults import (
    BEFORE_THE_CALL,
    CANCELLED,
    CUT_OFF,
    DONE,
    DONE_IN_TWO,
    MADE,
    PAUSE,
    PROCESSED,
    RAN,
    RESULT,
    ROLLED_BACK,
    START,
    SUBMITTED,
    WENT_ON,
    Case,
    Held,
    Outcome,
    Stage,
    Told,
    by_mode,
    taken,
)
from tests.e2e.program import PATIENCE_S, started
from tests.integration.node import Node
from tests.integration.storage.network import Network, a_network
from tests.service import eventually

OK = Told(200)
AWAY = Told(503, "STORAGE_UNAVAILABLE", retryable=True)

ANSWER = {"type": "JSON", "data": RESULT}


# A service that is killed


def test_the_service_is_killed_while_members_work(tmp_path: Path, database: str) -> None:
    with started(tmp_path, POSTGRES_URL=database) as program:
        stage = Stage(program.ready(), database)
        cases = stage.cases("held")
        with stage.member("held") as node:
            stage.fire(cases)
            stage.call_back(taken(node, cases), cases, note="killed")
            program.kill()
            assert {case.told for case in cases} == {CUT_OFF}
    with started(tmp_path, POSTGRES_URL=database) as program:
        stage = Stage(program.ready(), database)
        expected = by_mode(
            fatal=(CUT_OFF, ROLLED_BACK), savepoint=(CUT_OFF, ROLLED_BACK), between=(CUT_OFF, BEFORE_THE_CALL)
        )
        assert stage.outcomes(cases) == expected
        assert stage.notes("killed") == {"COMMIT_BEFORE_DISPATCH"}
        with stage.member("held") as node:  # the clients ask again
            stage.fire(cases)
            for request in taken(node, cases):
                node.answer(request, payload=ANSWER)
            again = by_mode(fatal=(OK, DONE), savepoint=(OK, WENT_ON), between=(OK, after_all(DONE_IN_TWO)))
            assert stage.outcomes(cases) == again
        assert program.terminate() == 0


def after_all(held: Held) -> Held:
    """The same after a run that ended at its boundary."""
    return replace(held, versions=held.versions + 1, events=(*BEFORE_THE_CALL.events, *held.events))


BETWEEN = {"tags": "chain", "mode": "COMMIT_BEFORE_DISPATCH"}
CHAIN = a_workflow(
    A=[manual("GO", to="B", processors=[a_processor("first", tags="chain"), a_processor("second", **BETWEEN)])],
    B=[automated("ON", to="C", processors=[a_processor("third", **BETWEEN)])],
    C=[automated("END", to="D", processors=[a_processor("last", tags="chain")])],
    D=[],
)
"""A run with two boundaries: before ``second`` and before ``third``."""

UP_TO_SECOND = (START, PAUSE, RAN)
UP_TO_THIRD = (*UP_TO_SECOND, RAN, MADE, PAUSE)

SEGMENTS: dict[str, Held] = {
    "first": Held("A", "original", 1, ()),
    "second": Held("A", "first", 2, (), UP_TO_SECOND),
    "third": Held("B", "second", 3, (), UP_TO_THIRD),
    "last": Held("B", "second", 3, (), UP_TO_THIRD),
}
"""What is held when the service dies during the call of a processor: the documents of those before it, up to the last
boundary.
"""


def test_the_service_is_killed_in_each_segment_of_a_run(tmp_path: Path, database: str) -> None:
    with started(tmp_path, POSTGRES_URL=database) as program:
        stage = Stage(program.ready(), database)
        stage.api.a_model(CHAIN, model="chain/1")
        chains = {name: a_chain(stage) for name in SEGMENTS}
        with stage.member("chain") as node:
            for name, case in chains.items():
                advance(stage, node, case, until=name)
            program.kill()
        assert {case.told for case in chains.values()} == {CUT_OFF}
    with started(tmp_path, POSTGRES_URL=database) as program:
        stage = Stage(program.ready(), database)
        assert {name: stage.held(case) for name, case in chains.items()} == SEGMENTS
        for case in chains.values():  # nothing holds them
            assert stage.api.delete(f"/entity/{case.id}").status_code == 200
        assert program.terminate() == 0


def a_chain(stage: Stage) -> Case:
    """An entity at the beginning of a run with two boundaries."""
    saved = stage.api.create({**SAMPLE, "motivation": "original"}, model="chain/1")
    return Case("chain", saved.id, saved.transaction)


def advance(stage: Stage, node: Node, case: Case, *, until: str) -> None:
    """Fire GO and answer every callout up to the one of the processor ``until``, which is left waiting."""
    stage.fire([case])
    while (request := node.next())["processorName"] != until:
        node.answer(request, payload={"type": "JSON", "data": {"motivation": request["processorName"]}})


# A database that is cut off


class Wire:
    """A network between program and database, on a thread of its own."""

    def __init__(self, database: str) -> None:
        self._loop = asyncio.new_event_loop()
        self._ready: threading.Event = threading.Event()
        self._end = asyncio.Event()
        self._thread = threading.Thread(target=self._loop.run_until_complete, args=(self._carry(database),))
        self._thread.start()
        assert self._ready.wait(PATIENCE_S)

    async def _carry(self, database: str) -> None:
        async with a_network(database) as self.network:
            self._ready.set()
            await self._end.wait()

    def tell(self, order: Callable[[Network], None]) -> None:
        """Let the network do something, and wait until it is done."""
        done = threading.Event()
        self._loop.call_soon_threadsafe(lambda: (order(self.network), done.set()))
        assert done.wait(PATIENCE_S)

    def close(self) -> None:
        """End the network."""
        self._loop.call_soon_threadsafe(self._end.set)
        self._thread.join(PATIENCE_S)
        self._loop.close()


@dataclass
class Cuttable(Stage):
    """A stage whose database can be cut off."""

    wire: Wire | None = None

    def network(self, order: Callable[[Network], None]) -> None:
        """Let the network do something."""
        assert self.wire is not None
        self.wire.tell(order)

    @property
    def is_cuttable(self) -> bool:
        """Whether the network has heard what it was to wait for."""
        assert self.wire is not None
        return self.wire.network.is_cuttable


@pytest.fixture(scope="module")
def cuttable(database_template: Template, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cuttable]:
    """A program that reaches its database through a network."""
    home = tmp_path_factory.mktemp("cuttable")
    with (
        kept_open(database_template.clone()) as database,
        wired(database) as wire,
        started(home, POSTGRES_URL=wire.network.url) as program,
    ):
        stage = Cuttable(program.ready(), database, wire=wire)
        yield stage
        stage.clients.shutdown()
        assert program.terminate() == 0


@contextmanager
def wired(database: str) -> Iterator[Wire]:
    wire = Wire(database)
    try:
        yield wire
    finally:
        wire.close()


def test_the_database_connections_break_while_members_work(cuttable: Cuttable) -> None:
    cases = cuttable.cases("cut-working")
    with cuttable.member("cut-working") as node:
        cuttable.fire(cases)
        requests = taken(node, cases)
        cuttable.network(Network.cut)
        eventually(lambda: cuttable.api.get(f"/entity/{cases[0].id}").status_code == 200)
        for request in requests:
            node.answer(request, payload=ANSWER)
        assert cuttable.outcomes(cases) == by_mode(fatal=(OK, DONE), savepoint=(OK, WENT_ON), between=(OK, DONE_IN_TWO))


def test_the_connections_break_after_the_commit_was_heard(cuttable: Cuttable) -> None:
    """The service does not know, and finds out: the client hears of the success."""
    cases = cuttable.cases("heard", timers=())
    with cuttable.member("heard") as node:
        for case in cases:
            cuttable.fire([case])
            request = node.next()
            cuttable.network(lambda network, case=case: network.mute_after(last_document(case)))
            node.answer(request, payload=ANSWER)
            eventually(lambda case=case: cuttable.sql(IN_DONE, case.id))
            cuttable.network(Network.cut)
            assert case.told == OK, case.mode
        expected = by_mode(fatal=(OK, DONE), savepoint=(OK, WENT_ON), between=(OK, DONE_IN_TWO))
        assert cuttable.outcomes(cases) == timeless(expected)


def test_the_connections_break_before_the_commit_was_heard(cuttable: Cuttable) -> None:
    cases = cuttable.cases("unheard", timers=())
    with cuttable.member("unheard") as node:
        for case in cases:
            cuttable.fire([case])
            request = node.next()
            cuttable.network(lambda network, case=case: network.deafen_at(last_document(case)))
            node.answer(request, payload=ANSWER)
            eventually(lambda: cuttable.is_cuttable)
            cuttable.network(Network.cut)
            assert case.told == AWAY, case.mode
        expected = by_mode(fatal=(AWAY, ROLLED_BACK), savepoint=(AWAY, ROLLED_BACK), between=(AWAY, BEFORE_THE_CALL))
        assert cuttable.outcomes(cases) == timeless(expected)


def last_document(case: Case) -> bytes:
    """What only the last commit of a run brings to the database."""
    return (SUBMITTED if case.mode == "ASYNC_NEW_TX" else PROCESSED).encode()


def timeless(outcomes: Mapping[str, Outcome]) -> dict[str, Outcome]:
    """The same for entities without timers."""
    return {
        mode: (told, replace(held, timers=(), events=tuple(each for each in held.events if each != CANCELLED)))
        for mode, (told, held) in outcomes.items()
    }


IN_DONE = "SELECT 1 FROM entity WHERE id = $1::uuid AND state = 'DONE'"


# More slow runs than connections

RUNS, OTHERS = 200, 20


async def test_two_hundred_slow_runs_on_four_connections_starve_nobody(tmp_path: Path, database: str) -> None:
    """All of them wait for a member at once, between their segments; other requests are served meanwhile."""
    with started(tmp_path, POSTGRES_URL=database, POSTGRES_MAX_CONNS="4", POSTGRES_MIN_CONNS="1") as program:
        stage = Stage(await asyncio.to_thread(program.ready), database)
        slow = a_processor("work", tags="slow", mode="COMMIT_BEFORE_DISPATCH", responseTimeoutMs=120_000)
        flow = a_workflow(NEW=[manual("GO", to="DONE", processors=[slow])], DONE=[])
        await asyncio.to_thread(stage.api.a_model, flow)
        limits = httpx.Limits(max_connections=None)
        async with httpx.AsyncClient(
            base_url=stage.api.url, limits=limits, timeout=60, trust_env=False, verify=False
        ) as http:
            entities = await created(http, RUNS)
            with stage.member("slow") as node:
                async with asyncio.TaskGroup() as group:
                    runs = [group.create_task(http.put(f"/entity/JSON/{each}/GO", json=RESULT)) for each in entities]
                    requests = await asyncio.to_thread(taken, node, entities)  # nobody is answered before all are asked
                    await others_are_served(http, entities[0])
                    assert not any(run.done() for run in runs)
                    assert await asyncio.to_thread(stage.sql, BUSY) == []
                    for request in requests:
                        node.answer(request, payload=ANSWER)
                assert {run.result().status_code for run in runs} == {200}
        counts = await asyncio.to_thread(stage.sql, COUNTS)
        assert [tuple(row) for row in counts] == [("DONE", RUNS), ("NEW", OTHERS)]
        assert len(await asyncio.to_thread(stage.sql, "SELECT 1 FROM entity_history")) == 2 * RUNS + OTHERS
        assert await asyncio.to_thread(program.terminate) == 0


COUNTS = "SELECT state, count(*) FROM entity GROUP BY state ORDER BY state"

BUSY = """
    SELECT query FROM pg_stat_activity
     WHERE datname = current_database() AND pid <> pg_backend_pid() AND state LIKE 'idle in transaction%'
"""


async def created(http: httpx.AsyncClient, count: int) -> list[str]:
    """So many entities."""
    response = await http.post("/entity/JSON/prize/1?transactionWindow=1000", json=[dict(SAMPLE)] * count)
    return list(response.json()[0]["entityIds"])


async def others_are_served(http: httpx.AsyncClient, held: str) -> None:
    """Creates, updates, reads, lists and searches of others come to their ends."""
    for entity in await created(http, OTHERS):
        assert (await http.put(f"/entity/JSON/{entity}", json=dict(SAMPLE))).status_code == 200
    envelope = (await http.get(f"/entity/{held}")).json()
    assert (envelope["meta"]["state"], envelope["data"]["motivation"]) == ("NEW", PROCESSED)
    assert (await http.get("/entity/prize/1?pageSize=10")).status_code == 200
    condition = {"type": "lifecycle", "field": "state", "operatorType": "EQUALS", "value": "NEW"}
    found = await http.post("/search/direct/prize/1", json=condition)
    assert len(found.text.splitlines()) == RUNS + OTHERS
