"""Where jobs come from and where results go: what a worker needs of a transport."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Protocol

from msgspec import Struct

from statewright.sdk.jobs.job import Job


class JobsUnavailable(Exception):
    """The engine cannot be reached or cannot serve now; the same call may succeed later."""


class JobsRefused(Exception):
    """The engine refuses a call, and would refuse it again. ``is_gone``: it does not know the job."""

    def __init__(self, reason: str, *, is_gone: bool = False) -> None:
        super().__init__(reason)
        self.is_gone = is_gone


class Poll(Struct, frozen=True, kw_only=True):
    """A worker's question for jobs. ``wait`` is how long the answer may take when there are none."""

    worker: str
    types: tuple[str, ...]
    most: int
    lease: timedelta
    wait: timedelta


class JobSource(Protocol):
    """One engine over one protocol. Every call raises :class:`JobsUnavailable` or :class:`JobsRefused`."""

    async def poll(self, poll: Poll) -> Sequence[Job]:
        """Jobs that are now the worker's."""
        ...

    async def complete(self, job: Job, worker: str, variables: bytes) -> None:
        """Report a result, a JSON object."""
        ...

    async def fail(self, job: Job, worker: str, message: str, *, retryable: bool) -> None:
        """Report a failure."""
        ...

    async def renew(self, job: Job, worker: str, lease: timedelta) -> bool:
        """Lengthen the lease; False where the protocol has no word for it."""
        ...

    async def close(self) -> None:
        """End all connections."""
        ...
