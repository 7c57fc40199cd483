"""Starting instances that follow others (docs/reference/steps.md#chaining), or that others wait for, by an outbox.

The transaction that ends an instance writes a row for its successor, and one that enters a node that waits for another
instance writes a row for that; the one that creates the instance, under the id of the row, removes it.
"""

from collections.abc import Sequence
from contextlib import suppress
from datetime import timedelta
from functools import partial

from statewright import logs
from statewright.background import run_by_size
from statewright.engine.run import record
from statewright.failures import BusinessKeyInUse, Conflict, ProcessConflict, ProcessNotFound
from statewright.jsonval.values import JsonObject
from statewright.net import Moment, uuid_to_ulid
from statewright.processes.language import Applied, ChildOutcome, I, NewInstance, P, Rejection
from statewright.services.processes import advancing, audit, definitions
from statewright.services.processes.advancing import InstanceChange
from statewright.services.processes.documents import read_object
from statewright.services.processes.hosting import ProcessHost, ProcessHosts
from statewright.services.processes.incident_rows import build_chain_incident
from statewright.services.processes.outbox import SUSPENDED_INTERVAL_US, Outbox, OutboxWorker
from statewright.services.processes.writing import OUTBOX_DELAY_US, encode_outcome
from statewright.services.runtime import Caller, Runtime
from statewright.services.scheduler import system_principal
from statewright.storage.commit.unit_of_work import UnitOfWork
from statewright.storage.ops.incidents import INCIDENTS, StagedIncidents
from statewright.storage.processes import children
from statewright.storage.processes.children import DueChild
from statewright.storage.processes.parts import WAITS, ChildEndRow, Waits

log = logs.logger("steps")


def build_successor_starter(runtime: Runtime, *, scan_interval: timedelta) -> OutboxWorker[DueChild]:
    """Starts what is due, in one process."""
    hosts, pool = runtime.extensions.get(ProcessHosts), runtime.pool

    async def start_child(child: DueChild) -> None:
        await hosts.get_hosted(child.language).start_child(child)

    outbox = Outbox(
        name="steps-chains",
        failure="chain_start_failed",
        scan_failure="chains_scan_failed",
        due=hosts.due_children,
        wake=hosts.children_cancelled,
        take=lambda now, backoff, limit: children.take_due_children(
            pool, hosts.names, now=now, backoff=backoff, limit=limit
        ),
        fetch=partial(children.fetch_due_child, pool),
        carry_out=start_child,
    )
    return OutboxWorker(outbox, runtime.clock, scan_interval=scan_interval)


async def start_successor(host: ProcessHost[P, I], child: DueChild) -> None:
    """Start one successor, or give it up for a reason that will not change; at most once, whatever others try. What is
    not needed any more is cancelled; what is suspended is started later.
    """
    if child.is_cancelled:
        await _cancel(host, child)
        return
    if await advancing.find_definition_suspension(host, child.tenant, child.definition_id) is not None:
        until = host.runtime.clock() + SUSPENDED_INTERVAL_US
        await children.defer_child(host.runtime.pool, child.tenant, child.id, until=until)
        return
    published = await definitions.find_version(host, child.tenant, child.definition_id, child.definition_version)
    if published is None:
        await _give_up(host, child, f"definition {child.definition_id} not found")
        return
    moment = host.shared.next_moment()
    new = NewInstance(
        id=uuid_to_ulid(child.id),
        variables=await run_by_size(len(child.variables), lambda: read_object(child.variables)),
        business_key=child.business_key or "",
        parent_instance_id=uuid_to_ulid(child.parent),
        awaited_by=None if child.execution is None else uuid_to_ulid(child.execution),
    )

    def record_on_parent(unit: UnitOfWork) -> None:
        detail: JsonObject = {
            "instanceId": new.id,
            "definitionId": child.definition_id,
            "definitionName": host.language.get_definition_name(published.process),
        }
        record(unit, child.parent, audit.build_entry_event("chain-started", detail))

    try:
        await advancing.create(
            host,
            Caller(system_principal(child.tenant)),
            published,
            new,
            moment=moment,
            inner=moment,
            also_stage=record_on_parent,
        )
    except BusinessKeyInUse as taken:
        if await _is_still_due(host, child):  # not by the successor itself
            await _give_up(host, child, taken.message)
    except Conflict:
        if await _is_still_due(host, child):
            raise


async def _is_still_due(host: ProcessHost[P, I], child: DueChild) -> bool:
    row = await children.fetch_due_child(host.runtime.pool, child.tenant, child.id)
    return row is not None and not row.is_started


async def _cancel(host: ProcessHost[P, I], child: DueChild) -> None:
    """End an instance that nobody waits for any more; one that was not started is not started at all."""
    operations = host.language.children
    assert operations is not None, "a language without children has none to cancel"  # noqa: S101

    def operation(process: P, current: I, moment: Moment) -> Applied[I] | Rejection:
        return operations.cancel(process, current, moment)

    if child.is_started:
        change = InstanceChange(operation, None)
        with suppress(ProcessNotFound, ProcessConflict):  # it is purged, or has ended
            await advancing.advance_in_turn(
                host,
                Caller(system_principal(child.tenant)),
                child.id,
                lambda: change,
                kind="instance.cancel_child",
                unknown=ProcessNotFound("an awaited instance is gone"),
            )
    await children.drop_child(host.runtime.pool, child)


async def _give_up(host: ProcessHost[P, I], child: DueChild, reason: str) -> None:
    """It never affects an instance that has ended; its trail tells. One that waits hears why."""
    async with host.runtime.open_unit(Caller(system_principal(child.tenant))) as unit:
        detail = {"definitionId": child.definition_id, "failureReason": reason}
        record(unit, child.parent, audit.build_entry_event("chain-failed", {**detail}))
        unit.parts[WAITS.name] = Waits(
            tenant=child.tenant,
            language=host.language.name,
            started_children=[child.id],
            child_ends=_build_failed_end(child, reason, unit.started_at),
        )
        if child.execution is None:  # one that waits for it fails itself
            row = build_chain_incident(unit, host.language, child, reason)
            unit.parts[INCIDENTS.name] = StagedIncidents(rows=(row,))
        withheld = host.runtime.incidents.withhold(unit.parts)
        await unit.commit()
    host.runtime.incidents.write_behind(withheld)
    if child.execution is not None:
        host.shared.due_ends.add(child.tenant, child.id)
    else:
        host.runtime.incidents.count_committed("CHAIN_FAILED")
    log.warning("chain_given_up", tenant=child.tenant, parent=child.parent, reason=reason)


def _build_failed_end(child: DueChild, reason: str, now: int) -> Sequence[ChildEndRow]:
    if child.execution is None:
        return ()
    row = ChildEndRow(
        id=child.id,
        parent=child.parent,
        execution=child.execution,
        outcome=encode_outcome(ChildOutcome(reason=reason)),
        not_before=now + OUTBOX_DELAY_US,
    )
    return (row,)
