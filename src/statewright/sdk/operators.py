"""What clients offer to operators, and to programs that watch over a service (docs/reference/operations.md)."""

from statewright.sdk.methods import (
    Subject,
    build_async_iterator,
    build_awaited,
    build_awaited_script,
    build_blocking,
    build_blocking_script,
    build_iterator,
)
from statewright.sdk.operations.ops import (
    explanations,
    incidents,
    lists,
    records,
    suspensions,
    waits,
    work,
    workflows,
)
from statewright.sdk.operations.ops import versions as former


class Ops(Subject):
    """Why something waits, who works, what was done."""

    describe = build_blocking(records.describe)
    explain = build_blocking(explanations.explain)
    explain_instance = build_blocking(explanations.explain_instance)
    wait = build_blocking_script(waits.wait)
    wait_for_instance = build_blocking_script(waits.wait_for_instance)
    versions = build_iterator(former.versions)
    version = build_blocking(former.version)
    diff = build_blocking(former.diff)
    restore = build_blocking(former.restore)
    transaction = build_iterator(records.transaction)
    events = build_iterator(records.events)
    changes = build_iterator(records.changes)
    members = build_iterator(work.members)
    drain = build_blocking(work.drain)
    queues = build_iterator(work.queues)
    queue = build_blocking(work.queue)
    nodes = build_iterator(work.nodes)
    rates = build_blocking(work.rates)
    search = build_iterator(lists.search)
    count = build_blocking(lists.count)
    models = build_iterator(lists.models)
    idle = build_iterator(lists.idle)
    messages = build_iterator(lists.messages)
    search_jobs = build_iterator(lists.search_jobs)
    count_instances = build_blocking(lists.count_instances)
    count_steps = build_blocking(lists.count_steps)
    check_workflows = build_blocking(workflows.check_workflows)
    simulate = build_blocking(workflows.simulate)
    idempotency = build_blocking(records.idempotency)
    audit = build_iterator(records.audit)
    settings = build_blocking(records.settings)


class AsyncOps(Subject):
    """Why something waits, who works, what was done."""

    describe = build_awaited(records.describe)
    explain = build_awaited(explanations.explain)
    explain_instance = build_awaited(explanations.explain_instance)
    wait = build_awaited_script(waits.wait)
    wait_for_instance = build_awaited_script(waits.wait_for_instance)
    versions = build_async_iterator(former.versions)
    version = build_awaited(former.version)
    diff = build_awaited(former.diff)
    restore = build_awaited(former.restore)
    transaction = build_async_iterator(records.transaction)
    events = build_async_iterator(records.events)
    changes = build_async_iterator(records.changes)
    members = build_async_iterator(work.members)
    drain = build_awaited(work.drain)
    queues = build_async_iterator(work.queues)
    queue = build_awaited(work.queue)
    nodes = build_async_iterator(work.nodes)
    rates = build_awaited(work.rates)
    search = build_async_iterator(lists.search)
    count = build_awaited(lists.count)
    models = build_async_iterator(lists.models)
    idle = build_async_iterator(lists.idle)
    messages = build_async_iterator(lists.messages)
    search_jobs = build_async_iterator(lists.search_jobs)
    count_instances = build_awaited(lists.count_instances)
    count_steps = build_awaited(lists.count_steps)
    check_workflows = build_awaited(workflows.check_workflows)
    simulate = build_awaited(workflows.simulate)
    idempotency = build_awaited(records.idempotency)
    audit = build_async_iterator(records.audit)
    settings = build_awaited(records.settings)


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
