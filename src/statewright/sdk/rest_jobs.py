"""Jobs over the REST dialect, by long poll (docs/reference/steps.md#jobs).

``waitSeconds`` and ``renew`` are extensions; other engines ignore the one and answer 404 to the other.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from http import HTTPStatus
from typing import Final
from urllib.parse import quote, urlsplit

import httpx
import msgspec
from msgspec import Struct

from statewright.jsonval.codec import decode, encode
from statewright.jsonval.values import JsonObject
from statewright.sdk.http import CONNECT_TIMEOUT_S, LIMITS, UnusableAddress, verify_peer
from statewright.sdk.jobs import Job, JobsRefused, JobsUnavailable, Poll
from statewright.sdk.tokens import TokenSource, TokenUnavailable

RESPONSE_TIMEOUT_S: Final = 30.0
"""Limit of the wait for an answer, in addition to the time that a poll lets the engine wait for jobs."""


class RestJobs:
    """The engine at the origin of an address; its path does not count, since ``/v1`` is at the root."""

    def __init__(self, address: str, tokens: TokenSource) -> None:
        parts = urlsplit(address)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise UnusableAddress(address)
        self._root = f"{parts.scheme}://{parts.netloc}/v1/jobs"
        self._tokens = tokens
        self._client = httpx.AsyncClient(
            verify=verify_peer(address),
            limits=LIMITS,
            trust_env=False,
        )
        self._renews = True

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

    async def fail(self, job: Job, worker: str, message: str, *, retryable: bool) -> None:
        """Report a failure."""
        body: JsonObject = {"workerId": worker, "errorMessage": message, "retryable": retryable}
        await self._post(f"/{quote(job.id, safe='')}/fail", encode(body))

    async def renew(self, job: Job, worker: str, lease: timedelta) -> bool:
        """Extend the lease; False, from the first answer 404 on, for an engine without this call."""
        if not self._renews:
            return False
        body: JsonObject = {"workerId": worker, "leaseSeconds": round(lease.total_seconds())}
        try:
            await self._post(f"/{quote(job.id, safe='')}/renew", encode(body))
        except JobsRefused as refused:
            if not refused.is_gone:
                raise
            self._renews = False
        return self._renews

    async def close(self) -> None:
        """End all connections."""
        await self._client.aclose()

    async def _post(self, path: str, body: bytes, *, timeout_s: float = RESPONSE_TIMEOUT_S) -> bytes:
        headers = {"Content-Type": "application/json"}
        try:
            token = await self._tokens.get_token()
            if token is not None:
                headers["Authorization"] = f"Bearer {token}"
            response = await self._client.post(
                f"{self._root}{path}",
                content=body,
                headers=headers,
                timeout=httpx.Timeout(timeout_s, connect=CONNECT_TIMEOUT_S),
            )
        except (httpx.HTTPError, TokenUnavailable) as error:
            raise JobsUnavailable(str(error) or type(error).__name__) from error
        return self._check(response)

    def _check(self, response: httpx.Response) -> bytes:
        status = response.status_code
        if status < HTTPStatus.BAD_REQUEST:
            return response.content
        reason = f"{status} {_read_reason(response.content)}"
        if status == HTTPStatus.UNAUTHORIZED:
            self._tokens.invalidate()
        if status >= HTTPStatus.INTERNAL_SERVER_ERROR or status in _TRANSIENT_STATUSES:
            raise JobsUnavailable(reason)
        raise JobsRefused(reason, is_gone=status == HTTPStatus.NOT_FOUND)


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


class _Error(Struct):
    reason: str = ""


_POLL_RESPONSE: Final = msgspec.json.Decoder(_PollResponse)
_ERROR: Final = msgspec.json.Decoder(_Error)


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


def _read_reason(content: bytes) -> str:
    try:
        return _ERROR.decode(content).reason
    except msgspec.DecodeError:
        return content[:200].decode(errors="replace").strip()
