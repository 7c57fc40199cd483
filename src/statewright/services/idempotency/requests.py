"""Carrying out requests with keys: the first one runs, its twins wait for it and are given its answer
(docs/reference/operations.md#idempotent-requests).

Twins on this node wait in memory. Of one that is at work on another node only its claim is known, and only if it calls
out or commits in parts; it is looked at until it is done. Where there is none two twins may both compute: the commit of
the second finds the record of the first, applies nothing, and what the first has stored is answered. So a refusal, too,
is told only when there is still no record: it may be due to what a twin has done meanwhile.

The same keeps repeats from being done again, so most requests do not ask for a record before they run: nearly all are
the first with their key. Those look first that are costly to do in vain, that do what no commit of theirs can undo, or
whose transaction is that of another request.

Removing records of requests whose retention is over (docs/reference/operations.md#idempotent-requests).
"""

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from datetime import timedelta
from functools import partial
from hashlib import blake2b
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from statewright.entity import Principal
from statewright.failures import (
    Failure,
    IdempotencyConflict,
    IdempotencyInProgress,
    IdempotencyInterrupted,
    IdempotencyKeyNotFound,
    IdempotencyKeyTaken,
    OutcomeUnknown,
    RunCutOff,
    StorageUnavailable,
)
from statewright.ids import TenantId
from statewright.loop.background import Removal, repeat
from statewright.operations.idempotency import KeyScope, StoredAnswer
from statewright.services.idempotency.keyed import (
    INTERRUPTED_RETENTION,
    AnswerFormat,
    KeyedRequest,
    KeySettings,
    find_staged_record,
)
from statewright.storage import idempotency as records
from statewright.storage.commit.unit_of_work import UnitOfWork
from statewright.storage.idempotency import KeyReader, StoredKey
from statewright.storage.pool import Pool
from statewright.telemetry import logs

MIN_PAUSE_S, MAX_PAUSE_S = 0.1, 1.0
"""Between two looks at a twin on another node."""

GIVE_UP_PAUSE_S: Final = 1.0
"""Between two attempts to remove a claim while the database is away."""

OUTCOMES: Final = ("new", "replayed", "conflict", "waited", "taken_over", "resumed", "interrupted")
"""What can become of a request with a key; one that waits is counted again when its wait is over."""

log = logs.logger(__name__)


class Executed(Struct, frozen=True):
    """What a request with a key is answered."""

    answer: StoredAnswer
    is_replay: bool = False


Attempt = Callable[[], Awaitable[StoredAnswer]]
"""Carries the request out. Raises its failures."""


class _Overtaken(Exception):
    """A twin was faster: what it did is looked up."""


def build_scope(tenant: TenantId, principal: str, key: str) -> KeyScope:
    """The scope of a key, and its hash."""
    digest = blake2b(key.encode(), digest_size=16).hexdigest()
    return KeyScope(tenant, principal, digest)


class IdempotentRequests:
    """The requests with keys of one process. ``outcomes`` counts them."""

    def __init__(
        self,
        pool: Pool,
        reads: Pool,
        *,
        node: str,
        retention: timedelta = timedelta(hours=24),
        wait: timedelta = timedelta(seconds=10),
    ) -> None:
        self.outcomes: Counter[str] = Counter()
        self._reader = KeyReader(reads)
        self._settings = KeySettings(pool=pool, reader=self._reader, node=node, retention=retention)
        self._wait_s = wait.total_seconds()
        self._running: dict[KeyScope, KeyedRequest] = {}
        self._given_up: set[asyncio.Task[None]] = set()

    def open_request(
        self, principal: Principal, key: str, request_hash: bytes, answer_format: AnswerFormat
    ) -> KeyedRequest:
        """A request that is about to be carried out."""
        scope = build_scope(principal.tenant, principal.id, key)
        return KeyedRequest(self._settings, scope, request_hash, answer_format)

    async def get_record(self, tenant: TenantId, principal: str, key: str) -> StoredKey:
        """The record of a key; one in progress whose run was cut off is as a repeat would find it. Raises
        ``IdempotencyKeyNotFound``.
        """
        found = await self._reader.find(build_scope(tenant, principal, key))
        if found is None:
            raise IdempotencyKeyNotFound
        if found.status == "IN_PROGRESS" and found.is_segmented and not found.is_held:
            return replace(found, status="INTERRUPTED")
        return found

    async def execute(
        self, keyed: KeyedRequest, attempt: Attempt, *, joined: UnitOfWork | None = None, looks_first: bool = True
    ) -> Executed:
        """Carry the request out, or give the answer of the first one. ``joined`` is the transaction it works in. One
        that does not look first finds the record of an earlier one when it writes its own.

        Raises the failures of the request, ``IdempotencyConflict``, ``IdempotencyInProgress``,
        ``IdempotencyInterrupted``.
        """
        begun = time.monotonic()
        keyed.joined = joined
        if self._running.setdefault(keyed.scope, keyed) is not keyed:
            await self._wait_for_twin(keyed, self._find_deadline(begun))
            looks_first = True  # the twin has left a record, most likely
            self._running[keyed.scope] = keyed
        try:
            if not looks_first and joined is None:
                is_first = True
                try:
                    return Executed(await self._run(keyed, attempt))
                except _Overtaken:
                    is_first = False
                    keyed.restart()
                finally:
                    self.outcomes["new"] += is_first
            return await self._execute_alone(keyed, attempt, self._find_deadline(begun), joined)
        finally:
            if keyed.is_left:
                self._watch(keyed)
            else:
                self._end(keyed)

    def _find_deadline(self, begun: float) -> float:
        """When a request that was begun then waits no longer for a twin, by the clock of the event loop. Nearly none
        waits, so none asks for the loop before.
        """
        return asyncio.get_running_loop().time() + self._wait_s - (time.monotonic() - begun)

    async def _execute_alone(
        self, keyed: KeyedRequest, attempt: Attempt, deadline: float, joined: UnitOfWork | None
    ) -> Executed:
        """The same, looking first, where no other request of this node has the key."""
        while True:
            replay = await self._find_answer(keyed, deadline, joined)
            if replay is not None:
                self.outcomes["replayed"] += 1
                return Executed(replay, is_replay=True)
            try:
                return Executed(await self._run(keyed, attempt))
            except _Overtaken:
                keyed.restart()

    async def _wait_for_twin(self, keyed: KeyedRequest, deadline: float) -> None:
        """Wait until no other request of this node has the key."""
        self.outcomes["waited"] += 1
        while (twin := self._running.get(keyed.scope)) is not None:
            if twin.request_hash != keyed.request_hash:
                self._refuse()
            try:
                async with asyncio.timeout_at(deadline):
                    await twin.wait_for_end()
            except TimeoutError as late:
                raise IdempotencyInProgress from late
            await asyncio.sleep(0)  # an end that was reached before is noticed by another task

    def _end(self, keyed: KeyedRequest) -> None:
        del self._running[keyed.scope]
        keyed.end()

    def _watch(self, keyed: KeyedRequest) -> None:
        """Let twins wait for a run whose client has gone."""

        async def watch() -> None:
            await keyed.wait_for_end()
            self._end(keyed)

        self._start(watch())

    async def _find_answer(
        self, keyed: KeyedRequest, deadline: float, joined: UnitOfWork | None
    ) -> StoredAnswer | None:
        """The stored answer; None when the request is to run, maybe from where an earlier attempt has come to."""
        clock, pause, has_waited = asyncio.get_running_loop().time, MIN_PAUSE_S, False
        while True:
            if joined is not None and (staged := find_staged_record(joined, keyed.scope)) is not None:
                if bytes.fromhex(staged.request_hash) != keyed.request_hash:
                    self._refuse()
                return StoredAnswer(staged.answer_status or 0, staged.answer_type or "", staged.answer or "")
            found = await self._reader.find(keyed.scope)
            if found is None:
                self.outcomes["new"] += 1
                return None
            if found.request_hash != keyed.request_hash:
                self._refuse()
            if found.answer is not None:
                return found.answer
            if found.status == "INTERRUPTED":
                self.outcomes["interrupted"] += 1
                raise IdempotencyInterrupted(found.transaction_id or "", found.entities)
            if (not found.is_held or found.node == self._settings.node) and await self._take_over(keyed, found):
                return None
            if clock() + pause > deadline:
                raise IdempotencyInProgress
            if not has_waited:
                self.outcomes["waited"] += 1
                has_waited = True
            await asyncio.sleep(pause)
            pause = min(1.5 * pause, MAX_PAUSE_S)

    async def _take_over(self, keyed: KeyedRequest, found: StoredKey) -> bool:
        """Go on with what an attempt has begun that is over; whether that can be."""
        pool = self._settings.pool
        if found.is_segmented:
            await records.interrupt(pool, keyed.scope, former=found.token, kept=INTERRUPTED_RETENTION)
            return False
        elements = await records.take_over(
            pool, keyed.scope, former=found.token, token=keyed.token, node=self._settings.node
        )
        if elements is None:
            return False
        keyed.resume(elements)
        self.outcomes["resumed" if elements else "taken_over"] += 1
        return True

    async def _run(self, keyed: KeyedRequest, attempt: Attempt) -> StoredAnswer:
        """Carry the request out, and leave no record behind but that of an effect."""
        try:
            answer = await attempt()
        except IdempotencyKeyTaken as taken:
            raise _Overtaken from taken
        except Failure as failure:
            return await self._settle_failure(keyed, failure)
        except asyncio.CancelledError:
            if not keyed.is_left and keyed.is_claimed:
                self._start(_insist_on_giving_up(keyed))
            raise
        except Exception as defect:
            if keyed.is_partly_durable and keyed.answer is None:
                await keyed.store_outcome(None, keyed.format.defect(defect))
            if keyed.answer is not None:
                return keyed.answer
            await self._give_up(keyed)
            raise
        if keyed.answer is None:
            if not answer.is_success:
                await self._give_up(keyed)
            elif await keyed.is_overtaken():
                raise _Overtaken
            else:  # without an effect, or with one that may happen twice
                await keyed.store_outcome(None, answer)
        return answer

    async def _settle_failure(self, keyed: KeyedRequest, failure: Failure) -> StoredAnswer:
        if isinstance(failure, RunCutOff):
            raise failure
        if keyed.answer is None and keyed.is_partly_durable and keyed.must_record(failure):
            await keyed.commit_failure(None, failure)
        if keyed.answer is not None:
            return keyed.answer
        is_known = not isinstance(failure, OutcomeUnknown | StorageUnavailable)
        if is_known and await keyed.is_overtaken():
            raise _Overtaken from failure
        await self._give_up(keyed)
        raise failure

    def _refuse(self) -> None:
        self.outcomes["conflict"] += 1
        raise IdempotencyConflict

    async def _give_up(self, keyed: KeyedRequest) -> None:
        """Remove what the attempt has claimed: before its client is told, or when the database is back."""
        try:
            await keyed.give_up()
        except StorageUnavailable:
            self._start(_insist_on_giving_up(keyed))

    def _start(self, work: "asyncio.Future[None] | Awaitable[None]") -> None:
        task = asyncio.ensure_future(work)
        self._given_up.add(task)
        task.add_done_callback(self._given_up.discard)


async def _insist_on_giving_up(keyed: KeyedRequest) -> None:
    while True:
        try:
            await keyed.give_up()
        except StorageUnavailable as away:
            log.info("idempotency_claim_kept", error=away.detail)
            await asyncio.sleep(GIVE_UP_PAUSE_S)
        else:
            return


class IdempotencySweeper:
    """Removes the records of all tenants whose time is over. Every node may do so at once."""

    def __init__(self, pool: Pool, *, interval: timedelta = timedelta(minutes=5)) -> None:
        self._pool = pool
        self._interval = interval
        self.removal = Removal(partial(records.remove_expired_records, pool), records.MAX_BATCH)
        self.stored = 0
        """About how many there were at the last look."""

    async def run(self) -> None:
        """Work until cancelled."""
        await repeat(self.run_once, self._interval, log=log, failure="idempotency_sweep_failed", waits_first=True)

    async def run_once(self) -> None:
        """Remove what is too old now, and estimate how much is left."""
        await self.removal.run()
        self.stored = await records.estimate_records(self._pool)
