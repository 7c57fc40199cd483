"""Work that ends nodes: counted, parked, retried, given up (docs/reference/operations.md#parked-work)."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import timedelta

import pytest

from statewright.failures import ComputationKilled, StorageUnavailable
from statewright.operations.incidents import Incident, Retry
from statewright.services.ops import incidents
from statewright.services.ops.incidents import IncidentFilter, IncidentSweeper
from statewright.services.processes.kept_reports import ReportKeeper
from statewright.storage.ops import incidents as stored
from statewright.storage.processes.timers import DueTimer
from statewright.storage.work import ENDS, LOSSES, STARTS, TIMERS, AnyWork
from tests.integration.processes.conftest import Office
from tests.integration.processes.errands import Errand
from tests.integration.steps.conftest import Watch
from tests.takings import take

LATER = timedelta(minutes=30)

TABLES = ("process_timer", "process_child", "process_child_end", "process_job")


@dataclass(frozen=True)
class Trap:
    """Work that waits for nodes to take it, and how one looks at it; how often it had its effect."""

    name: str
    work: AnyWork
    owner: Errand
    look: Callable[[Office], Awaitable[object]]
    count_effects: Callable[[], Awaitable[int]]

    async def fall(self, office: Office, clock: Watch) -> None:
        """A node takes it, and dies."""
        clock.advance(LATER)
        now = clock()
        if self.name == "loss":
            [_] = await office.claim("fetch", worker="push-dead")
            clock.advance(LATER)
            await office.sweep()
            return
        assert await take(office.runtime.core.pool, self.work, ["errands"], now=now, until=now + 10_000_000), self.name


async def set_timer(office: Office, clock: Watch) -> Trap:
    await office.draw()
    errand = await office.send()
    clock.advance(timedelta(hours=2))

    async def count() -> int:
        return int((await office.read(errand)).status == "COMPLETED")

    return Trap("timer", TIMERS, errand, lambda node: node.scan(), count)


async def set_start(office: Office, clock: Watch) -> Trap:
    await office.draw("second", ask="buy")
    await office.draw("first", after="second")
    parent = await office.send("first")

    async def count() -> int:
        return len(await office.children("second"))

    return Trap("start", STARTS, parent, lambda node: node.start_children(), count)


async def set_end(office: Office, clock: Watch) -> Trap:
    await office.draw("second", ask="buy")
    await office.draw("first", after="second")
    parent = await office.send("first")
    clock.advance(LATER)
    await office.start_children()
    [job] = await office.claim("buy")
    await office.complete(job, weight=1)

    async def count() -> int:
        return (await office.trace(parent)).count("after JOB COMPLETED")

    return Trap("end", ENDS, parent, lambda node: node.tell_ends(), count)


async def set_loss(office: Office, clock: Watch) -> Trap:
    await office.draw(within="P9D")
    errand = await office.send()

    async def look(node: Office) -> int:
        await node.sweep()
        jobs = await node.claim("fetch", worker="push-live")
        for job in jobs:
            await node.complete(job, weight=1)
        return len(jobs)

    async def count() -> int:
        return (await office.trace(errand)).count("ask JOB COMPLETED")

    return Trap("loss", LOSSES, errand, look, count)


TRAPS = pytest.mark.parametrize("build", [set_timer, set_start, set_end, set_loss])


async def list_open(office: Office) -> list[Incident]:
    wanted = IncidentFilter(kinds=["POISONED"], statuses=["OPEN"])
    return await stored.list_incidents(office.runtime.core.pool, office.caller.tenant, wanted, limit=9, after=None)


async def count_rows(office: Office, condition: str = "true") -> int:
    total = 0
    async with office.runtime.core.pool.connection() as connection:
        for table in TABLES:
            total += await connection.fetchval(f"SELECT count(*) FROM {table} WHERE {condition}")
    return total


async def park(office: Office, clock: Watch, trap: Trap) -> Incident:
    for _ in range(3):
        assert await list_open(office) == []
        await trap.fall(office, clock)
    clock.advance(LATER)
    await trap.look(office)
    [incident] = await list_open(office)
    assert await trap.count_effects() == 0
    return incident


@TRAPS
async def test_what_ends_three_nodes_is_parked_and_an_incident_names_it(offices, clock, build):
    office, other = offices
    trap = await build(office, clock)
    incident = await park(office, clock, trap)
    assert (incident.component, incident.subject.kind, incident.subject.model) == (trap.name, "INSTANCE", "Errand/1")
    assert incident.subject.id == (await office.runtime.core.reader.get(office.caller.tenant, incident.subject.id)).id
    assert trap.owner.definition_id in (incident.workflow or "")
    took = [attempt.member for attempt in incident.attempts]
    assert len(took) == 3
    assert all(node in incident.message for node in took)
    for node in (office, other, office):
        clock.advance(timedelta(days=2))
        await trap.look(node)
    assert await trap.count_effects() == 0, "nobody takes it again"
    await IncidentSweeper(
        office.runtime.core.pool,
        office.runtime.operations.concerns.incident_sweeper.reports,
        interval=LATER,
        retention=timedelta(days=1),
    ).run_once()
    [same] = await list_open(office)
    assert (same.id, same.occurrences) == (incident.id, 1)


@TRAPS
async def test_a_retry_has_parked_work_done(offices, clock, build):
    office, other = offices
    trap = await build(office, clock)
    incident = await park(office, clock, trap)
    done = await incidents.retry(office.runtime.processes, office.caller, incident.id, Retry())
    assert done.incident.resolution is not None
    assert (done.incident.status, done.incident.resolution.how) == ("RESOLVED", "RETRIED")
    clock.advance(LATER)
    await trap.look(other)
    assert await trap.count_effects() == 1
    assert await count_rows(office, "takers <> '{}'") == 0
    assert await list_open(office) == []


@TRAPS
async def test_resolving_gives_parked_work_up(offices, clock, build):
    office, other = offices
    trap = await build(office, clock)
    incident = await park(office, clock, trap)
    closed = await incidents.resolve(office.runtime.processes, office.caller, incident.id, "hopeless")
    assert closed.resolution is not None
    assert (closed.status, closed.resolution.reason) == ("RESOLVED", "hopeless")
    clock.advance(LATER)
    await trap.look(other)
    assert await trap.count_effects() == 0
    assert await count_rows(office, "cardinality(takers) >= 3") == 0
    await other.tell_ends()
    owner = await office.read(trap.owner)
    reasons = {"start": "given up by an operator: hopeless", "loss": "hopeless"}
    assert owner.marking.reason == reasons.get(trap.name)
    assert owner.status == ("FAILED" if trap.name in reasons else "RUNNING")


@TRAPS
async def test_two_nodes_that_look_at_once_park_once(offices, clock, build):
    office, other = offices
    trap = await build(office, clock)
    for _ in range(3):
        await trap.fall(office, clock)
    clock.advance(LATER)
    await asyncio.gather(*(trap.look(node) for node in (office, other, office, other)))
    [incident] = await list_open(office)
    assert incident.occurrences == 1
    assert (
        office.runtime.operations.concerns.incident_sweeper.reports.totals["POISONED"]
        + other.runtime.operations.concerns.incident_sweeper.reports.totals["POISONED"]
        == 1
    )


@TRAPS
async def test_two_nodes_that_end_with_it_do_not_keep_it_from_the_third(offices, clock, build):
    office, other = offices
    trap = await build(office, clock)
    for _ in range(2):
        await trap.fall(office, clock)
    clock.advance(LATER)
    await trap.look(other)
    assert await trap.count_effects() == 1
    assert await list_open(office) == []


async def read_takers(office: Office) -> list[list[str]]:
    async with office.runtime.core.pool.connection() as connection:
        return [row["takers"] for row in await connection.fetch("SELECT takers FROM process_timer")]


@pytest.mark.parametrize(
    ("failure", "counts"),
    [(StorageUnavailable("away"), 0), (asyncio.CancelledError(), 0), (ComputationKilled(), 1), (KeyError("defect"), 1)],
)
async def test_an_attempt_counts_unless_it_ends_in_good_order(offices, clock, failure, counts):
    office, _ = offices
    await set_timer(office, clock)
    now = clock()
    [timer] = await take(office.runtime.core.pool, TIMERS, ["errands"], now=now, until=now + 1)
    [[taker]] = await read_takers(office)
    takings = office.runtime.core.takings
    with pytest.raises(type(failure)):
        async with takings.attempt(TIMERS, timer.tenant, (timer.id,), taker):
            raise failure
    await takings.release_all()
    assert [len(takers) for takers in await read_takers(office)] == [counts]


async def take_timer(office: Office, clock: Watch) -> DueTimer:
    clock.advance(LATER)
    now = clock()
    [timer] = await take(office.runtime.core.pool, TIMERS, ["errands"], now=now, until=now + 1)
    return timer


async def test_a_release_forgets_nobody_who_took_the_work_later(offices, clock):
    office, _ = offices
    await set_timer(office, clock)
    timer, *_ = [await take_timer(office, clock) for _ in range(2)]
    [[first, second]] = await read_takers(office)
    takings = office.runtime.core.takings
    async with takings.attempt(TIMERS, timer.tenant, (timer.id,), first):
        pass
    await takings.release_all()
    assert await read_takers(office) == [[second]]


async def test_what_was_under_way_beside_it_is_done(offices, clock):
    office, other = offices
    await office.draw()
    errands = [await office.send() for _ in range(20)]
    clock.advance(timedelta(hours=2))
    for _ in range(2):
        now = clock()
        assert len(await take(office.runtime.core.pool, TIMERS, ["errands"], now=now, until=now + 1, limit=99)) == 20
        clock.advance(LATER)
    while await other.scan():
        pass
    assert {(await office.read(errand)).status for errand in errands} == {"COMPLETED"}
    assert await list_open(office) == []


async def test_fresh_work_goes_on_while_a_suspect_of_another_kind_takes_its_time(offices, clock):
    office, _ = offices
    trap = await set_timer(office, clock)
    office.runtime.core.takings.suspects.under_way = 1
    assert await asyncio.wait_for(office.scan(), 10) == 1
    assert await trap.count_effects() == 1


async def test_nodes_take_shares_of_the_timers_that_are_due(offices, clock):
    office, other = offices
    await office.draw()
    for _ in range(9):
        await office.send()
    clock.advance(timedelta(hours=2))
    for node in offices:
        node.runtime.core.takings.count_nodes = lambda: 3
    fired = [await office.scan(), await other.scan(), await office.scan(), await other.scan()]
    assert fired == [3, 2, 2, 1]


async def test_a_kept_report_that_ends_three_nodes_is_parked(offices, clock):
    office, other = offices
    await office.draw(within="P9D")
    errand = await office.send()
    report = '{"outcome": "COMPLETED", "result": {"weight": 1}, "by": {"id": "w", "name": "w", "kind": "m2m"}}'
    async with office.runtime.core.pool.connection() as connection:
        await connection.execute(
            "UPDATE process_job SET kept_under = gen_random_uuid(), report = $1, reported_at = 1, taken_until = 0,"
            " lock_expires_at = 9223372036854775807, takers = '{1 a,2 b,3 c}'",
            report,
        )
    keeper = ReportKeeper(other.runtime.processes)
    await keeper.run_once()
    [incident] = await list_open(office)
    assert (incident.component, incident.step, incident.occurrences) == ("report", "ask", 1)
    await keeper.run_once()
    assert (await office.trace(errand)) == ["ask JOB RUNNING"]
    await incidents.retry(office.runtime.processes, office.caller, incident.id, Retry())
    await keeper.run_once()
    assert "ask JOB COMPLETED" in await office.trace(errand)
