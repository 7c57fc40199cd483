"""What clients offer to operators, and to programs that watch over a service (docs/reference/operations.md)."""

from statewright.sdk.exchange import (
    Subject,
    build_async_iterator,
    build_awaited,
    build_awaited_script,
    build_blocking,
    build_blocking_script,
    build_iterator,
)
from statewright.sdk.operations.ops import history, incidents, suspensions, work


class Ops(Subject):
    """Why something waits, who works, what was done."""

    describe = build_blocking(history.describe)
    explain = build_blocking(history.explain)
    explain_instance = build_blocking(history.explain_instance)
    wait = build_blocking_script(history.wait)
    wait_for_instance = build_blocking_script(history.wait_for_instance)
    versions = build_iterator(history.versions)
    version = build_blocking(history.version)
    diff = build_blocking(history.diff)
    restore = build_blocking(history.restore)
    transaction = build_iterator(history.transaction)
    events = build_iterator(history.events)
    changes = build_iterator(history.changes)
    members = build_iterator(work.members)
    drain = build_blocking(work.drain)
    queues = build_iterator(work.queues)
    queue = build_blocking(work.queue)
    nodes = build_iterator(work.nodes)
    rates = build_blocking(work.rates)
    search = build_iterator(work.search)
    count = build_blocking(work.count)
    models = build_iterator(work.models)
    idle = build_iterator(work.idle)
    messages = build_iterator(work.messages)
    search_jobs = build_iterator(work.search_jobs)
    count_instances = build_blocking(work.count_instances)
    count_steps = build_blocking(work.count_steps)
    check_workflows = build_blocking(work.check_workflows)
    simulate = build_blocking(work.simulate)
    idempotency = build_blocking(history.idempotency)
    audit = build_iterator(history.audit)
    settings = build_blocking(history.settings)


class AsyncOps(Subject):
    """Why something waits, who works, what was done."""

    describe = build_awaited(history.describe)
    explain = build_awaited(history.explain)
    explain_instance = build_awaited(history.explain_instance)
    wait = build_awaited_script(history.wait)
    wait_for_instance = build_awaited_script(history.wait_for_instance)
    versions = build_async_iterator(history.versions)
    version = build_awaited(history.version)
    diff = build_awaited(history.diff)
    restore = build_awaited(history.restore)
    transaction = build_async_iterator(history.transaction)
    events = build_async_iterator(history.events)
    changes = build_async_iterator(history.changes)
    members = build_async_iterator(work.members)
    drain = build_awaited(work.drain)
    queues = build_async_iterator(work.queues)
    queue = build_awaited(work.queue)
    nodes = build_async_iterator(work.nodes)
    rates = build_awaited(work.rates)
    search = build_async_iterator(work.search)
    count = build_awaited(work.count)
    models = build_async_iterator(work.models)
    idle = build_async_iterator(work.idle)
    messages = build_async_iterator(work.messages)
    search_jobs = build_async_iterator(work.search_jobs)
    count_instances = build_awaited(work.count_instances)
    count_steps = build_awaited(work.count_steps)
    check_workflows = build_awaited(work.check_workflows)
    simulate = build_awaited(work.simulate)
    idempotency = build_awaited(history.idempotency)
    audit = build_async_iterator(history.audit)
    settings = build_awaited(history.settings)


class Incidents(Subject):
    """Failed work, and doing it again."""

    list = build_iterator(incidents.list_all)
    groups = build_iterator(incidents.groups)
    get = build_blocking(incidents.get)
    retry = build_blocking(incidents.retry)
    resolve = build_blocking(incidents.resolve)


class AsyncIncidents(Subject):
    """Failed work, and doing it again."""

    list = build_async_iterator(incidents.list_all)
    groups = build_async_iterator(incidents.groups)
    get = build_awaited(incidents.get)
    retry = build_awaited(incidents.retry)
    resolve = build_awaited(incidents.resolve)


class Suspensions(Subject):
    """Movement that is stopped at a chosen place."""

    list = build_iterator(suspensions.list_all)
    get = build_blocking(suspensions.get)
    suspend = build_blocking(suspensions.suspend)
    resume = build_blocking(suspensions.resume)


class AsyncSuspensions(Subject):
    """Movement that is stopped at a chosen place."""

    list = build_async_iterator(suspensions.list_all)
    get = build_awaited(suspensions.get)
    suspend = build_awaited(suspensions.suspend)
    resume = build_awaited(suspensions.resume)
