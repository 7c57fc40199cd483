"""Handing jobs to calculation members whose tags name the job type, or are those that the definition names for it
(docs/reference/steps.md#pushed-jobs).

The same job can be polled by a worker and pushed to a member; the first to claim the row has it. A node claims for the
members connected to itself, as many jobs of a type as these may have under way, and sends each as a processor request:
``requestId`` is the job, ``entityId`` the instance, ``processorName`` the job type, the data are the variables,
``parameters`` the rest of the job's record. The data of the answer is the result of the job; a failure is tried again
while there are retries, unless its ``error.retryable`` is false.

No transaction is open and no connection is held meanwhile. The answer enters through the use cases of every worker, so
duplicates and late answers are harmless. Without an answer, or when the member is lost, the job goes back to the queue
without using a retry; should this node be lost, its lease ends.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from datetime import timedelta
from typing import Final, Generic, Protocol, TypeAlias
from uuid import uuid4

import msgspec

from statewright.compute.callout import Callout, CalloutResult
from statewright.compute.members import Members
from statewright.conditions.wire import parse_tags
from statewright.entity import system_principal
from statewright.failures import ComputeMemberDisconnected, DispatchTimeout, Failure, NoComputeMember, ProcessBadRequest
from statewright.ids import TenantId
from statewright.instants import to_rfc3339
from statewright.jsonval.codec import MalformedJson, encode
from statewright.jsonval.values import JsonObject, JsonValue
from statewright.loop.background import repeat
from statewright.processes.language import I, P
from statewright.services.core import Caller
from statewright.services.processes import jobs
from statewright.services.processes.hosting import ProcessHost, get_own_queue
from statewright.services.processes.jobs import ClaimedJob, JobClaim, render_job
from statewright.services.processes.service_workers import JobHolder
from statewright.services.processes.wakeups import ANY_TYPE, TAGGED, Topic
from statewright.services.processes.writing import to_entity_id
from statewright.services.writing import encode_by_size, read_by_size
from statewright.storage.processes import jobs as queue
from statewright.storage.processes.jobs import PushRoute
from statewright.telemetry import logs

ANSWER_TIMEOUT: Final = timedelta(seconds=30)
LEASE_TIMEOUT: Final = ANSWER_TIMEOUT + timedelta(seconds=10)
PUSHED_BY: Final = "push-"
"""What the names of workers begin with that push jobs to members."""

MAX_JOBS_PER_MEMBER: Final = 16
"""Jobs that one member may have under way."""

POLL_INTERVAL: Final = timedelta(seconds=1)
BATCH_INTERVAL_S: Final = 0.005
"""Between two looks: new jobs of a moment are claimed together."""

log = logs.logger(__name__)


DoJob: TypeAlias = Callable[[JobHolder, Caller, ClaimedJob], Awaitable[None]]
"""Does a job that members are to do, and reports what it comes to."""


class LocalCallouts(Protocol):
    """Sends callouts to the members connected to this process."""

    def dispatch(self, callout: Callout) -> Awaitable[CalloutResult]:
        """The reply. Raises ``NoComputeMember``, ``DispatchTimeout``, ``ComputeMemberDisconnected``."""
        ...


class Pusher(Generic[P, I]):
    """Pushes jobs of a language to the members of one node. A background service.

    ``render_job`` makes the job's record; its ``variables`` become the data of the request, the rest its parameters.
    With ``do_job`` a job is no request: it has the members asked, and reports to the holder of the job.
    """

    def __init__(
        self,
        host: ProcessHost[P, I],
        members: Members,
        callouts: LocalCallouts,
        render_job: Callable[[ClaimedJob], JsonObject] = render_job,
        do_job: "DoJob | None" = None,
    ) -> None:
        self._host = host
        self._render_job = render_job
        self._do_job = do_job
        self._members = members
        self._callouts = callouts
        self._holder = JobHolder(get_own_queue(host), f"{PUSHED_BY}{uuid4()}")
        self._busy: Counter[tuple[TenantId, PushRoute]] = Counter()
        self._under_way: set[asyncio.Task[None]] = set()
        self._woken = asyncio.Event()

    async def run(self) -> None:
        """Push until cancelled; what is under way then goes back to the queue."""
        try:
            with self._host.shared.wakeups.listen_to_topics(self):
                self._members.observers.append(self._woken.set)
                try:
                    await repeat(
                        self._push_and_pause, POLL_INTERVAL, log=log, failure="job_push_failed", wake=self._woken
                    )
                finally:
                    self._members.observers.remove(self._woken.set)
        finally:
            for task in self._under_way:
                task.cancel()

    @property
    def is_woken(self) -> bool:
        """Whether there may be jobs to look for."""
        return self._woken.is_set()

    def take(self, topics: Iterable[Topic]) -> None:
        """Look for jobs of these, if members of this node may do them: a look costs the database a millisecond."""
        for tenant, language, job_type in topics:
            if language == self._host.language.name and self._may_do(tenant, job_type):
                self._woken.set()
                return

    def take_all(self) -> None:
        """Look for jobs."""
        self._woken.set()

    async def run_once(self) -> int:
        """Claim what members of this node can take, and send it; how many jobs. Raises ``StorageUnavailable``."""
        taken = 0
        for tenant in {member.tenant for member in self._members.iterate_all()}:
            for route in await queue.fetch_routes(self._host.core.pool, tenant, self._host.language.name):
                free = self._count_free(tenant, route)
                if free > 0:
                    taken += await self._push(tenant, route, free)
        return taken

    async def _push_and_pause(self) -> None:
        """A round, and the time in which what wakes the next one becomes more."""
        await self.run_once()
        await asyncio.sleep(BATCH_INTERVAL_S)

    def _may_do(self, tenant: TenantId, job_type: str) -> bool:
        members = self._members.list_members(tenant)
        tag = job_type.lower()
        return bool(members) and (job_type in (ANY_TYPE, TAGGED) or any(tag in member.tags for member in members))

    def _count_free(self, tenant: TenantId, route: PushRoute) -> int:
        wanted = frozenset(list_route_tags(route))
        members = self._members.list_members(tenant)
        matching = sum(wanted <= member.tags and not member.is_draining for member in members)
        return MAX_JOBS_PER_MEMBER * matching - self._busy[tenant, route]

    async def _push(self, tenant: TenantId, route: PushRoute, limit: int) -> int:
        types = (route.job_type,)
        name = self._holder.name
        claim = JobClaim(worker_id=name, job_types=types, max_jobs=limit, lease=LEASE_TIMEOUT, route=route)
        claimed = await jobs.claim(self._holder.queue, Caller(system_principal(tenant)), claim)
        for job in claimed:
            self._busy[tenant, route] += 1
            task = asyncio.create_task(self._deliver(tenant, route, job), name="job-push")
            self._under_way.add(task)
            task.add_done_callback(self._under_way.discard)
        return len(claimed)

    async def _deliver(self, tenant: TenantId, route: PushRoute, job: ClaimedJob) -> None:
        caller = Caller(system_principal(tenant))
        try:
            if self._do_job is not None:
                await self._do_job(self._holder, caller, job)
                return
            reply = await self._callouts.dispatch(await self._build_callout(tenant, route, job))
        except (NoComputeMember, DispatchTimeout, ComputeMemberDisconnected) as error:
            log.info("pushed_job_returns", job=job.id, type=job.job_type, reason=error.code)
            await self._give_back(caller, job)
        except asyncio.CancelledError:
            self._host.core.start_detached(self._give_back(caller, job))
            raise
        except Failure as failure:  # its lease ends, and another worker does it again
            log.warning("pushed_job_not_reported", job=job.id, error=failure.detail)
        except Exception as defect:
            log.error("service_job_defect", job=job.id, type=job.job_type, error=repr(defect), exc_info=True)
            await self._holder.fail(caller, job, "the service could not have the job done", retryable=False)
        else:
            await self._report(caller, job, reply)
        finally:
            self._busy[tenant, route] -= 1
            self._woken.set()

    async def _report(self, caller: Caller, job: ClaimedJob, reply: CalloutResult) -> None:
        try:
            if not reply.success:
                await self._holder.fail(caller, job, reply.error or "", retryable=reply.retryable)
            else:
                await self._complete(caller, job, reply)
        except Failure as failure:  # its lease ends, and another worker does it again
            log.warning("pushed_job_not_reported", job=job.id, error=failure.detail)

    async def _complete(self, caller: Caller, job: ClaimedJob, reply: CalloutResult) -> None:
        try:
            await self._holder.complete(caller, job, await _read_result(reply))
        except (MalformedJson, ProcessBadRequest) as unusable:
            told = f"the answer of the member is no result: {unusable}"
            await self._holder.fail(caller, job, told, retryable=False)

    async def _give_back(self, caller: Caller, job: ClaimedJob) -> None:
        try:
            await self._holder.release(caller, job)
        except Failure as failure:  # its lease ends
            log.warning("pushed_job_not_returned", job=job.id, error=failure.detail)

    async def _build_callout(self, tenant: TenantId, route: PushRoute, job: ClaimedJob) -> Callout:
        record = self._render_job(job)
        variables = record.pop("variables")
        instance = to_entity_id(job.instance_id)
        key, made_at = self._host.language.models.instance.key, to_rfc3339(job.created_at)
        meta: JsonObject = {
            "id": instance,
            "modelKey": {"name": key.name, "version": key.version},
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
            tags=list_route_tags(route),
            tags_text=route.tags or job.job_type,
            timeout_ms=ANSWER_TIMEOUT // timedelta(milliseconds=1),
            entity_id=instance,
            workflow=job.definition_id,
            transition=job.node_id,
            parameters=encode(record).decode(),
            payload=await encode_by_size({"type": "JSON", "data": variables, "meta": meta}),
            principal=system_principal(tenant),
        )


def list_route_tags(route: PushRoute) -> tuple[str, ...]:
    """The tags that a member must declare, all of them, in lower case."""
    return (route.job_type.lower(),) if route.tags is None else parse_tags(route.tags)


async def _read_result(reply: CalloutResult) -> JsonValue:
    """The result of a job. Raises ``MalformedJson``."""
    return None if reply.data is msgspec.UNSET else await read_by_size(reply.data)
