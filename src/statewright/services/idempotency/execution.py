"""Carrying out a request with an idempotency key for an interface, as its recording wants it."""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final, Protocol, Self, TypeAlias, TypeVar

from msgspec.structs import replace

from statewright.operations.idempotency import Recording, StoredAnswer
from statewright.services.core import Caller, Core
from statewright.services.idempotency.keyed import AnswerFormat, KeyedRequest
from statewright.services.idempotency.requests import Executed
from statewright.storage.pool import Pool

MAX_UNSEEN_BYTES: Final = 16 * 1024
"""Of a request that is begun before its record was looked for: what a repeat of it costs is thrown away."""


class PoolBound(Protocol):
    """The parts of a service that use cases work with."""

    def within(self, pool: Pool) -> Self:
        """The same, for a use case that writes by statements of its own: all of them go over ``pool``."""
        ...


Parts = TypeVar("Parts", bound=PoolBound)

Work: TypeAlias = Callable[[Parts, Caller], Awaitable[StoredAnswer]]
"""Carries a request out. Raises its failures."""


def execute_for(
    core: Core,
    parts: Parts,
    caller: Caller,
    work: Work[Parts],
    *,
    key: str,
    request_hash: bytes,
    answer_format: AnswerFormat,
    recording: Recording,
    size: int,
) -> Awaitable[Executed]:
    """Carry a request out, or give the answer of the first one with its key. Where it is recorded by a transaction, all
    that the use case does on the pool of its parts is in that one; a request that joins a unit of work is recorded
    there. ``size``, of the request in bytes, tells about how long a run of it takes the processor. Raises what the work
    raises, and the failures of ``IdempotentRequests.execute``.
    """
    requests = core.requests
    keyed = requests.open_request(caller.principal, key, request_hash, answer_format)

    joined = None if recording == "transaction" else caller.transaction
    if recording == "transaction" or (recording == "either" and joined is None):
        return _execute_in_transaction(core, parts, caller, work, keyed)
    return requests.execute(
        keyed,
        partial(work, parts, replace(caller, around=(keyed,))),
        joined=joined,
        looks_first=recording != "only commit" or size > MAX_UNSEEN_BYTES,
    )


async def _execute_in_transaction(
    core: Core, parts: Parts, caller: Caller, work: Work[Parts], keyed: KeyedRequest
) -> Executed:
    def attempt() -> Awaitable[StoredAnswer]:
        return keyed.run_in_transaction(lambda pool: work(parts.within(pool), caller))

    executed = await core.requests.execute(keyed, attempt)
    if not executed.is_replay:
        core.forget_definitions(caller.tenant)
    return executed
