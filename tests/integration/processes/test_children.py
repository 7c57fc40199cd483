"""Instances that wait for others: each is started once and heard of once, whichever node looks, and whatever dies."""

import asyncio
from datetime import timedelta

from statewright.storage.processes import children
from statewright.storage.work import ENDS, STARTS
from tests.integration.processes.conftest import Office
from tests.integration.processes.errands import Errand
from tests.integration.steps.conftest import Watch
from tests.takings import take

LATER = timedelta(seconds=11)
"""Behind the time that the node has that wrote a row."""


async def start_pair(office: Office, clock: Watch) -> tuple[Errand, Errand]:
    """An errand that waits for another, which was started."""
    await office.draw("second", ask="buy")
    await office.draw("first", after="second")
    parent = await office.send("first", who="Ada")
    clock.advance(LATER)
    assert await office.start_children() == 1
    [child] = await office.children("second")
    return parent, child


async def test_the_parent_goes_on_with_what_its_child_came_to(offices: tuple[Office, Office], clock: Watch):
    office, other = offices
    parent, child = await start_pair(office, clock)
    assert (child.parent_instance_id, child.marking.data) == (parent.id, {"who": "Ada"})
    assert await other.claim("fetch") == ()
    [job] = await other.claim("buy")
    await other.complete(job, weight=4)
    assert (await other.read(child)).status == "COMPLETED"
    clock.advance(LATER)
    assert await office.tell_ends() == 1
    assert await office.tell_ends() == 0
    assert (await other.read(parent)).marking.data == {"who": "Ada", "brought": 4}
    [job] = await other.claim("fetch")
    await other.complete(job, weight=1)
    assert await other.trace(parent) == ["after JOB COMPLETED", "ask JOB COMPLETED", "done END COMPLETED"]


async def test_a_child_that_fails_fails_the_node_that_waits(offices: tuple[Office, Office], clock: Watch):
    office, other = offices
    parent, child = await start_pair(office, clock)
    [job] = await other.claim("buy")
    await other.complete(job, nothing="known")
    assert (await other.read(child)).status == "FAILED"
    clock.advance(LATER)
    assert await other.tell_ends() == 1
    failed = await office.read(parent)
    assert (failed.status, failed.marking.reason) == ("FAILED", "nobody told the weight")


async def test_a_definition_that_is_not_there_fails_the_node_that_waits(offices: tuple[Office, Office], clock: Watch):
    office, other = offices
    await office.draw("first", after="nowhere")
    parent = await office.send("first")
    clock.advance(LATER)
    assert await other.start_children() == 1
    clock.advance(LATER)
    assert await other.tell_ends() == 1
    assert (await office.read(parent)).marking.reason == "definition nowhere not found"


async def test_nodes_that_look_at_once_start_one_child_and_tell_one_end(offices: tuple[Office, Office], clock: Watch):
    office, other = offices
    await office.draw("second", ask="buy")
    await office.draw("first", after="second")
    parent = await office.send("first")
    clock.advance(LATER)
    pool, tenant, now = office.runtime.core.pool, office.caller.tenant, clock()
    due = await take(pool, STARTS, ["errands"], now=now, until=now + 1)
    await asyncio.gather(*(start(node, row) for node in offices for row in due))
    [_] = await office.children("second")
    [job] = await other.claim("buy")
    await other.complete(job, weight=1)
    clock.advance(LATER)
    ends = await take(pool, ENDS, ["errands"], now=clock(), until=clock() + 1)
    await asyncio.gather(*(tell(node, row) for node in offices for row in ends))
    assert await children.fetch_due_end(pool, tenant, ends[0].id) is None
    assert (await office.trace(parent)).count("after JOB COMPLETED") == 1
    [_] = await other.claim("fetch")


async def test_a_parent_that_is_cancelled_meanwhile_hears_nothing(offices: tuple[Office, Office], clock: Watch):
    office, other = offices
    parent, _ = await start_pair(office, clock)
    await office.cancel(parent)
    [job] = await other.claim("buy")
    await other.complete(job, weight=1)
    clock.advance(LATER)
    assert await other.tell_ends() == 1
    assert await other.tell_ends() == 0
    assert (await office.read(parent)).status == "CANCELLED"


async def test_the_child_of_a_parent_that_is_cancelled_is_cancelled(offices: tuple[Office, Office], clock: Watch):
    office, other = offices
    parent, child = await start_pair(office, clock)
    await office.cancel(parent)
    assert await other.start_children() == 1
    assert (await office.read(child)).status == "CANCELLED"
    assert await other.claim("buy") == ()
    clock.advance(LATER)
    assert await other.tell_ends() == 1
    assert await other.start_children() == 0
    assert await count_rows(office) == 0


async def test_a_child_that_was_not_started_yet_is_not_started(offices: tuple[Office, Office], clock: Watch):
    office, other = offices
    await office.draw("second", ask="buy")
    await office.draw("first", after="second")
    await office.cancel(await office.send("first"))
    clock.advance(LATER)
    assert await other.start_children() == 1
    assert await other.children("second") == []
    assert await count_rows(office) == 0


async def test_a_child_whose_start_meets_the_end_of_its_parent_does_not_stay(
    offices: tuple[Office, Office], clock: Watch
):
    office, other = offices
    await office.draw("second", ask="buy")
    await office.draw("first", after="second")
    for _ in range(5):
        parent = await office.send("first")
        clock.advance(LATER)
        pool, now = office.runtime.core.pool, clock()
        [row] = await take(pool, STARTS, ["errands"], now=now, until=now + 10_000_000)
        await asyncio.gather(start(other, row), office.cancel(parent))
        clock.advance(LATER)
        await other.start_children()
        clock.advance(LATER)
        await office.tell_ends()
    assert {child.status for child in await office.children("second")} <= {"CANCELLED"}
    assert await count_rows(office) == 0


async def test_what_ended_before_it_was_cancelled_stays_as_it_is(offices: tuple[Office, Office], clock: Watch):
    office, other = offices
    parent, child = await start_pair(office, clock)
    [job] = await other.claim("buy")
    await other.complete(job, weight=1)
    await office.cancel(parent)
    assert await other.start_children() == 1
    assert (await office.read(child)).status == "COMPLETED"


async def count_rows(office: Office) -> int:
    async with office.runtime.core.pool.connection() as connection:
        count: int = await connection.fetchval(
            "SELECT (SELECT count(*) FROM process_child) + (SELECT count(*) FROM process_child_end)"
        )
    return count


async def test_the_log_of_an_instance_has_every_event_once_in_order(offices: tuple[Office, Office], clock: Watch):
    office, other = offices
    parent, _ = await start_pair(office, clock)
    [job] = await other.claim("buy")
    await asyncio.gather(office.complete(job, weight=1), other.complete(job, weight=1))
    clock.advance(LATER)
    await asyncio.gather(office.tell_ends(), other.tell_ends())
    [job] = await other.claim("fetch")
    await asyncio.gather(office.complete(job, weight=20), other.complete(job, weight=20))
    assert await other.log(parent) == [(1, "after"), (2, "ask"), (3, "lift")]


async def start(node: Office, row: children.DueChild) -> None:
    await node.host.shared.get_hosted("errands").start_child(row)


async def tell(node: Office, row: children.DueEnd) -> None:
    await node.host.shared.get_hosted("errands").tell_end(row)
