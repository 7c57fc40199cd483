"""What clients offer to operators, and to programs that watch over a service (docs/reference/operations.md)."""

from statewright.sdk.exchange import Awaited, Blocking, Items, make_method, make_script_method
from statewright.sdk.operations.ops import history, incidents, suspensions, work


class _Ops:
    describe = make_method(history.describe)
    explain = make_method(history.explain)
    explain_instance = make_method(history.explain_instance)
    wait = make_script_method(history.wait)
    wait_for_instance = make_script_method(history.wait_for_instance)
    versions = Items(history.versions)
    version = make_method(history.version)
    diff = make_method(history.diff)
    restore = make_method(history.restore)
    transaction = Items(history.transaction)
    events = Items(history.events)
    changes = Items(history.changes)
    members = Items(work.members)
    drain = make_method(work.drain)
    queues = Items(work.queues)
    queue = make_method(work.queue)
    nodes = Items(work.nodes)
    rates = make_method(work.rates)
    search = Items(work.search)
    count = make_method(work.count)
    models = Items(work.models)
    idle = Items(work.idle)
    messages = Items(work.messages)
    search_jobs = Items(work.search_jobs)
    count_instances = make_method(work.count_instances)
    count_steps = make_method(work.count_steps)
    check_workflows = make_method(work.check_workflows)
    simulate = make_method(work.simulate)
    idempotency = make_method(history.idempotency)
    audit = Items(history.audit)
    settings = make_method(history.settings)


class Ops(_Ops, Blocking):
    """Why something waits, who works, what was done."""


class AsyncOps(_Ops, Awaited):
    """Why something waits, who works, what was done."""


class _Incidents:
    list = Items(incidents.list_all)
    groups = Items(incidents.groups)
    get = make_method(incidents.get)
    retry = make_method(incidents.retry)
    resolve = make_method(incidents.resolve)


class Incidents(_Incidents, Blocking):
    """Failed work, and doing it again."""


class AsyncIncidents(_Incidents, Awaited):
    """Failed work, and doing it again."""


class _Suspensions:
    list = Items(suspensions.list_all)
    get = make_method(suspensions.get)
    suspend = make_method(suspensions.suspend)
    resume = make_method(suspensions.resume)


class Suspensions(_Suspensions, Blocking):
    """Movement that is stopped at a chosen place."""


class AsyncSuspensions(_Suspensions, Awaited):
    """Movement that is stopped at a chosen place."""
