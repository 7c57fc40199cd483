"""Jobs over the REST dialect, by long poll (docs/reference/steps.md#jobs).

``waitSeconds`` and ``renew`` are extensions; other engines ignore the one and answer 404 to the other.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from http import HTTPStatus
from typing import Final
from urllib.parse import quote

import msgspec
from msgspec import Struct

from statewright.jsonval.codec import MalformedJson, decode, encode
from statewright.jsonval.values import JsonObject
from statewright.sdk.errors import Unreachable, build_error
from statewright.sdk.exchange import Transport
from statewright.sdk.jobs import Job, JobLost, JobsRefused, JobsUnavailable, Poll
from statewright.sdk.operations.calls import Call, HttpResponse

RESPONSE_TIMEOUT_S: Final = 30.0
"""Limit of the wait for an answer, in addition to the time that a poll lets the engine wait for jobs."""


class RestJobs:
    """The engine at the host of a service. ``transport`` is the node's, which closes it."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self._renews = True
        self._takes_progress = True

    async def poll(self, poll: Poll) -> Sequence[Job]:
        """Claim jobs; they are leased to the worker."""
        asked: JsonObject = {
            "workerId": poll.worker,
            "jobTypes": list(poll.types),
            "maxJobs": poll.max_jobs,
            "leaseSeconds": round(poll.lease.total_seconds()),
            "waitSeconds": round(poll.wait.total_seconds()),
        }
        answer = await self._post("/poll", encode(asked), timeout_s=RESPONSE_TIMEOUT_S + poll.wait.total_seconds())
        try:
            return [_to_job(found) for found in _POLL_RESPONSE.decode(answer).jobs or ()]
        except (msgspec.DecodeError, ValueError) as error:
            raise JobsUnavailable(f"the answer to a poll cannot be read: {error}") from error

    async def complete(self, job: Job, worker: str, variables: bytes) -> None:
        """Report a result."""
        body = b'{"workerId":%b,"variables":%b}' % (encode(worker), variables)
        await self._post(f"/{quote(job.id, safe='')}/complete", body)

    async def fail(
        self, job: Job, worker: str, message: str, *, retryable: bool, rest: timedelta | None = None
    ) -> None:
        """Report a failure."""
        body: JsonObject = {"workerId": worker, "errorMessage": message, "retryable": retryable}
        if rest is not None:
            body["retryAfterSeconds"] = round(rest.total_seconds())
        await self._post(f"/{quote(job.id, safe='')}/fail", encode(body))

    async def renew(self, job: Job, worker: str, lease: timedelta) -> bool:
        """Extend the lease; False, from the first answer 404 on, for an engine without this call. An answer that names
        the job is of one that is over. Raises :class:`JobLost`.
        """
        if not self._renews:
            return False
        body: JsonObject = {"workerId": worker, "leaseSeconds": round(lease.total_seconds())}
        response = await self._send(f"/{quote(job.id, safe='')}/renew", encode(body))
        if response.status in (HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT):
            detail = build_error(response.status, response.body).problem.detail
            if response.status == HTTPStatus.CONFLICT or job.id in detail:
                raise JobLost(detail)
            self._renews = False
            return False
        _check(response)
        return True

    async def report_progress(self, job: Job, worker: str, report: bytes) -> "JsonObject | None":
        """Report what a pipeline has done; None, from the first answer 404 on, for an engine without this call."""
        if not self._takes_progress:
            return None
        body = b'{"workerId":%b,"progress":%b}' % (encode(worker), report)
        response = await self._send(f"/{quote(job.id, safe='')}/progress", body)
        if response.status == HTTPStatus.NOT_FOUND:
            self._takes_progress = False
            return None
        if response.status == HTTPStatus.CONFLICT:
            raise JobLost(build_error(response.status, response.body).problem.detail)
        try:
            taken = decode(_check(response))
        except MalformedJson as malformed:
            raise JobsUnavailable(f"the answer to a report cannot be read: {malformed}") from malformed
        return taken if isinstance(taken, dict) else {}

    async def close(self) -> None:
        """Nothing: the connections are the node's."""

    async def _post(self, path: str, body: bytes, *, timeout_s: float = RESPONSE_TIMEOUT_S) -> bytes:
        return _check(await self._send(path, body, timeout_s=timeout_s))

    async def _send(self, path: str, body: bytes, *, timeout_s: float = RESPONSE_TIMEOUT_S) -> HttpResponse:
        call = Call(name="job", method="POST", path=f"/v1/jobs{path}", body=body, at_root=True, timeout_s=timeout_s)
        try:
            return await self._transport.send_async(call)
        except Unreachable as error:
            raise JobsUnavailable(str(error)) from error


def _check(response: HttpResponse) -> bytes:
    """The body of a successful answer."""
    if response.status < HTTPStatus.BAD_REQUEST:
        return response.body
    detail = build_error(response.status, response.body).problem.detail
    reason = f"{response.status} {detail.removeprefix(str(response.status)).strip()}"
    if response.status >= HTTPStatus.INTERNAL_SERVER_ERROR or response.status in _TRANSIENT_STATUSES:
        raise JobsUnavailable(reason)
    raise JobsRefused(reason, is_gone=response.status == HTTPStatus.NOT_FOUND)


_TRANSIENT_STATUSES: Final = frozenset(
    {HTTPStatus.UNAUTHORIZED, HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.CONFLICT, HTTPStatus.TOO_MANY_REQUESTS}
)


class _JobMessage(Struct, rename="camel"):
    id: str
    job_type: str
    instance_id: str
    step_id: str | None = None
    step_execution_id: str | None = None
    retries_remaining: int | None = None
    lock_expires_at: datetime | None = None
    variables: msgspec.Raw = msgspec.Raw(b"null")


class _PollResponse(Struct):
    jobs: list[_JobMessage] | None = None


_POLL_RESPONSE: Final = msgspec.json.Decoder(_PollResponse)


def _to_job(found: _JobMessage) -> Job:
    variables = decode(bytes(found.variables))
    return Job(
        id=found.id,
        type=found.job_type,
        instance_id=found.instance_id,
        step_id=found.step_id or "",
        step_execution_id=found.step_execution_id or "",
        retries_remaining=found.retries_remaining or 0,
        lock_expires_at=found.lock_expires_at,
        variables=variables if isinstance(variables, dict) else {},
    )
