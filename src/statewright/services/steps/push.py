"""Handing jobs to calculation members whose tags name the job type, or are those that the definition names for it
(spec/step-engine.md §25.5).

The same job can be taken by two doors; whoever claims the row first has it. A node claims for the members connected to
itself, as many jobs of a type as these may have under way, and sends each as a processor request: ``requestId`` is the
job, ``entityId`` the instance, ``processorName`` the job type, the data are the variables, ``parameters`` the rest of
the job's record. The data of the answer is the result of the job; a failure is tried again while there are
retries, unless its ``error.retryable`` is false.

No transaction is open and no connection is held meanwhile. The answer enters through the use cases of every worker, so
duplicates and late answers are harmless. Without an answer, or when the member is lost, the job goes back to the queue
without using a retry; should this node be lost, its lease ends.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable
from datetime import timedelta
from typing import Final, Protocol
from uuid import uuid4

import msgspec

from statewright import logs
from statewright.compute.callout import Callout, Reply
from statewright.compute.members import Members
from statewright.conditions.tags import required_tags
from statewright.failures import ComputeMemberDisconnected, DispatchTimeout, Failure, NoComputeMember
from statewright.identity import TenantId
from statewright.jsonval.codec import MalformedJson, decode, encode
from statewright.jsonval.values import JsonObject
from statewright.services.firing import system
from statewright.services.runtime import Caller, Runtime
from statewright.services.steps import builtin, jobs
from statewright.services.steps.jobs import Claim, ClaimedJob, job_record
from statewright.services.steps.writing import uuid
from statewright.steps.core import FailureReport
from statewright.steps.core.times import instant_text
from statewright.storage.steps import jobs as queue
from statewright.storage.steps.jobs import Route

ANSWER_WITHIN: Final = timedelta(seconds=30)
LEASE: Final = ANSWER_WITHIN + timedelta(seconds=10)
EACH: Final = 16
"""Jobs that one member may have under way."""

LOOK_EVERY_S: Final = 1.0
PAUSE_S: Final = 0.005
"""Between two looks: new jobs of a moment are claimed together."""

log = logs.logger("steps")


class Asks(Protocol):
    """Whoever brings a callout to a member connected to this process."""

    def dispatch(self, callout: Callout) -> Awaitable[Reply]:
        """The reply. Raises ``NoComputeMember``, ``DispatchTimeout``, ``ComputeMemberDisconnected``."""
        ...


class Pusher:
    """Pushes jobs to the members of one node. A background service."""

    def __init__(self, runtime: Runtime, members: Members, asks: Asks) -> None:
        self._runtime = runtime
        self._members = members
        self._asks = asks
        self._worker = f"push-{uuid4()}"
        self._busy: Counter[tuple[TenantId, Route]] = Counter()
        self._under_way: set[asyncio.Task[None]] = set()
        self._woken = asyncio.Event()

    async def run(self) -> None:
        """Push until cancelled; what is under way then goes back to the queue."""
        try:
            with self._runtime.steps.wakeups.listening_to_all() as self._woken:
                self._members.observers.append(self._woken.set)
                try:
                    await self._push_on()
                finally:
                    self._members.observers.remove(self._woken.set)
        finally:
            for task in self._under_way:
                task.cancel()

    async def run_once(self) -> int:
        """Claim what members of this node can take, and send it; how many jobs. Raises ``StorageUnavailable``."""
        taken = 0
        for tenant in {member.tenant for member in self._members.everybody()}:
            for route in await queue.routes(self._runtime.pool, tenant):
                room = self._room(tenant, route)
                if room > 0:
                    taken += await self._push(tenant, route, room)
        return taken

    async def _push_on(self) -> None:
        while True:
            self._woken.clear()
            try:
                await self.run_once()
            except Exception as error:  # a background loop must outlive the failure of one round
                log.warning("job_push_failed", error=repr(error))
            await asyncio.sleep(PAUSE_S)
            try:
                async with asyncio.timeout(LOOK_EVERY_S):
                    await self._woken.wait()
            except TimeoutError:
                pass

    def _room(self, tenant: TenantId, route: Route) -> int:
        wanted = frozenset(tags_of(route))
        matching = sum(wanted <= member.tags for member in self._members.of(tenant))
        return EACH * matching - self._busy[tenant, route]

    async def _push(self, tenant: TenantId, route: Route, limit: int) -> int:
        types = (route.job_type,)
        claim = Claim(worker_id=self._worker, job_types=types, max_jobs=limit, lease=LEASE, route=route)
        claimed = await jobs.claim(self._runtime, Caller(system(tenant)), claim)
        for job in claimed:
            self._busy[tenant, route] += 1
            task = asyncio.create_task(self._deliver(tenant, route, job), name="job-push")
            self._under_way.add(task)
            task.add_done_callback(self._under_way.discard)
        return len(claimed)

    async def _deliver(self, tenant: TenantId, route: Route, job: ClaimedJob) -> None:
        caller = Caller(system(tenant))
        try:
            reply = await self._asks.dispatch(_callout(tenant, route, job))
        except (NoComputeMember, DispatchTimeout, ComputeMemberDisconnected) as silent:
            log.info("pushed_job_returns", job=job.id, type=job.job_type, reason=silent.code)
            await self._give_back(caller, job)
        except asyncio.CancelledError:
            self._runtime.begin(self._give_back(caller, job))
            raise
        else:
            await self._report(caller, job, reply)
        finally:
            self._busy[tenant, route] -= 1
            self._woken.set()

    async def _report(self, caller: Caller, job: ClaimedJob, reply: Reply) -> None:
        try:
            if not reply.success:
                await self._fail(caller, job, reply.error or "", retryable=reply.retryable)
                return
            variables = _variables(reply)
            if variables is None:
                await self._fail(caller, job, "the answer of the member is no object", retryable=False)
                return
            await jobs.complete(self._runtime, caller, job.id, variables, worker_id=self._worker)
        except Failure as failure:  # its lease ends, and somebody does it again
            log.warning("pushed_job_not_reported", job=job.id, error=failure.detail)

    async def _fail(self, caller: Caller, job: ClaimedJob, message: str, *, retryable: bool) -> None:
        report = FailureReport(worker_id=self._worker, message=message, retryable=retryable)
        await jobs.fail(self._runtime, caller, job.id, report)

    async def _give_back(self, caller: Caller, job: ClaimedJob) -> None:
        try:
            await jobs.release(self._runtime, caller, job.id, worker_id=self._worker)
        except Failure as failure:  # its lease ends
            log.warning("pushed_job_not_returned", job=job.id, error=failure.detail)


def tags_of(route: Route) -> tuple[str, ...]:
    """The tags that a member must declare, all of them, in lower case."""
    return (route.job_type.lower(),) if route.tags is None else required_tags(route.tags)


def _callout(tenant: TenantId, route: Route, job: ClaimedJob) -> Callout:
    record = job_record(job)
    variables = record.pop("variables")
    instance = uuid(job.instance_id)
    made_at = instant_text(job.created_at)
    meta: JsonObject = {
        "id": instance,
        "modelKey": {"name": builtin.INSTANCE.name, "version": builtin.INSTANCE.version},
        "state": "ACTIVE",
        "creationDate": made_at,
        "lastUpdateTime": made_at,
        "transactionId": "",
    }
    return Callout(
        kind="processor",
        request_id=job.id,
        tenant=tenant,
        name=job.job_type,
        tags=tags_of(route),
        tags_text=route.tags or job.job_type,
        timeout_ms=ANSWER_WITHIN // timedelta(milliseconds=1),
        entity_id=instance,
        workflow=job.definition_id,
        transition=job.step_id,
        state_from="",
        state_to="",
        target="",
        transaction_id="",
        parameters=encode(record).decode(),
        payload=encode({"type": "JSON", "data": variables, "meta": meta}),
        principal=system(tenant),
        tx_token=None,
    )


def _variables(reply: Reply) -> "JsonObject | None":
    """The result of a job; None when it is no object."""
    if reply.data is msgspec.UNSET:
        return {}
    try:
        value = decode(reply.data)
    except MalformedJson:
        return None
    if value is None:
        return {}
    return value if isinstance(value, dict) else None
