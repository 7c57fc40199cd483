"""Carrying out a request with an idempotency key for an interface, as its recording wants it."""

from collections.abc import Awaitable, Callable
from typing import Final

from msgspec.structs import replace

from statewright.idempotency import Recording, StoredAnswer
from statewright.services.idempotency.keyed import AnswerFormat
from statewright.services.idempotency.requests import Executed, IdempotentRequests
from statewright.services.runtime import Caller, Runtime

MAX_UNSEEN_BYTES: Final = 16 * 1024
"""Of a request that is begun before its record was looked for: what a repeat of it costs is thrown away."""

Work = Callable[[Runtime, Caller], Awaitable[StoredAnswer]]
"""Carries a request out. Raises its failures."""


async def execute_for(
    runtime: Runtime,
    caller: Caller,
    work: Work,
    *,
    key: str,
    request_hash: bytes,
    answer_format: AnswerFormat,
    recording: Recording,
    size: int,
) -> Executed:
    """Carry a request out, or give the answer of the first one with its key. Where it is recorded by a transaction, all
    that the use case does on the pool of its runtime is in that one; a request that joins a unit of work is recorded
    there. ``size``, of the request in bytes, tells about how long a run of it takes the processor. Raises what the work
    raises, and the failures of ``IdempotentRequests.execute``.
    """
    requests = runtime.extensions.get(IdempotentRequests)
    keyed = requests.open_request(caller.principal, key, request_hash, answer_format)

    recorded = replace(caller, keyed=keyed)

    def attempt() -> Awaitable[StoredAnswer]:
        return work(runtime, recorded)

    def attempt_in_transaction() -> Awaitable[StoredAnswer]:
        return keyed.run_in_transaction(lambda pool: work(runtime.within(pool), caller))

    joined = None if recording == "transaction" else caller.transaction
    in_transaction = recording == "transaction" or (recording == "either" and joined is None)
    executed = await requests.execute(
        keyed,
        attempt_in_transaction if in_transaction else attempt,
        joined=joined,
        looks_first=recording != "only commit" or size > MAX_UNSEEN_BYTES,
    )
    if in_transaction and not executed.is_replay:
        runtime.forget_definitions(caller.tenant)
    return executed
