"""Telling instances that others have ended for which they wait, by an outbox.

The transaction that ends a child writes a row; the advance of its parent removes it. Of a child that nobody waits for
any more the row is dropped.
"""

from datetime import timedelta
from functools import partial

from statewright.background import run_by_size
from statewright.failures import ProcessNotFound
from statewright.net import Moment, uuid_to_ulid
from statewright.processes.language import Applied, ChildOutcome, I, P, Rejection
from statewright.services.processes import advancing
from statewright.services.processes.advancing import InstanceChange, InstanceSuspended
from statewright.services.processes.documents import read_object
from statewright.services.processes.hosting import ProcessHost, ProcessHosts
from statewright.services.processes.outbox import SUSPENDED_INTERVAL_US, Outbox, OutboxWorker
from statewright.services.runtime import Caller, Runtime
from statewright.services.scheduler import system_principal
from statewright.storage.processes import children
from statewright.storage.processes.children import DueEnd


def build_end_teller(runtime: Runtime, *, scan_interval: timedelta) -> OutboxWorker[DueEnd]:
    """Tells parents what has ended, in one process."""
    hosts, pool = runtime.extensions.get(ProcessHosts), runtime.pool

    async def tell_end(end: DueEnd) -> None:
        await hosts.get_hosted(end.language).tell_end(end)

    outbox = Outbox(
        name="process-ends",
        failure="child_end_failed",
        scan_failure="child_ends_scan_failed",
        due=hosts.due_ends,
        take=lambda now, backoff, limit: children.take_due_ends(
            pool, hosts.names, now=now, backoff=backoff, limit=limit
        ),
        fetch=partial(children.fetch_due_end, pool),
        carry_out=tell_end,
    )
    return OutboxWorker(outbox, runtime.clock, scan_interval=scan_interval)


async def tell_parent(host: ProcessHost[P, I], end: DueEnd) -> None:
    """Let the parent go on, at most once, whatever others try; later if it is suspended. Raises what an advance can
    fail with.
    """
    operations = host.language.children
    assert operations is not None, "a language without children has no ends of them"  # noqa: S101
    told = await run_by_size(len(end.outcome), lambda: read_object(end.outcome))
    reason = told.get("reason")
    outcome = ChildOutcome(output=told.get("output"), reason=reason if isinstance(reason, str) else None)
    execution = uuid_to_ulid(end.execution)

    def operation(process: P, current: I, moment: Moment) -> Applied[I] | Rejection:
        return operations.end_child(process, current, execution, outcome, moment)

    change = InstanceChange(operation, outcome.output, told_ends=(end.id,))
    try:
        advanced = await advancing.advance_in_turn(
            host,
            Caller(system_principal(end.tenant)),
            end.parent,
            lambda: change,
            kind="instance.end_child",
            unknown=ProcessNotFound("the parent of an instance is gone"),
        )
    except InstanceSuspended:
        until = host.runtime.clock() + SUSPENDED_INTERVAL_US
        await children.defer_end(host.runtime.pool, end.tenant, end.id, until=until)
        return
    except ProcessNotFound:
        await children.drop_end(host.runtime.pool, end.tenant, end.id)
        return
    if advanced.changed is None:
        await children.drop_end(host.runtime.pool, end.tenant, end.id)
