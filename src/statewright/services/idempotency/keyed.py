"""One request with an ``Idempotency-Key`` on its way to its answer.

The record of the request commits with its effect, so the answer has to be known before the commit. The interface says
how it is made of the result of the use case (``respond_with``); the use case hands in the result and commits
(``commit``). What else is written of a request, and when:

- a *claim*, before the first callout, so that a twin on another node never calls a member;
- with each segment of a run, that it is segmented: it cannot be taken over any more;
- with each chunk of a collection but the last, what became of it: whoever repeats the request goes on behind it;
- with the audit event of a failure behind a segment, the failure.

From the first of these on the stored record bears the token of this attempt, and each further write demands it. So a
node that was taken for dead, and wakes up, writes nothing. ``progress.py`` says what may follow what.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from datetime import timedelta
from types import MappingProxyType
from typing import Final, TypeVar
from uuid import uuid4

from msgspec import Struct

from statewright.failures import (
    BadRequest,
    Conflict,
    Failure,
    IdempotencyClaimLost,
    IdempotencyKeyTaken,
    OutcomeUnknown,
    StorageUnavailable,
)
from statewright.instants import to_us
from statewright.operations.idempotency import KeyScope, KeyStatus, StoredAnswer
from statewright.services.idempotency.progress import Progress
from statewright.storage import idempotency as records
from statewright.storage.columns import StagedRow
from statewright.storage.commit.overlay import Overlay, StagedPart
from statewright.storage.commit.unit_of_work import UnitOfWork
from statewright.storage.idempotency import (
    KEYS,
    NOBODY,
    KeyReader,
    KeyRecord,
    KeyRecords,
    open_recorded_transaction,
)
from statewright.storage.pool import Pool
from statewright.telemetry import logs

MAX_ANSWER_CHARS: Final = 16 * 1024 * 1024
"""Of an answer that is stored."""

INTERRUPTED_RETENTION: Final = timedelta(days=7)
"""For how long the record of a run counts that was cut off between its segments."""

T = TypeVar("T")

log = logs.logger(__name__)


class AnswerFormat(Struct, frozen=True):
    """How an interface answers failures, and what is no expected failure."""

    failure: Callable[[Failure], StoredAnswer]
    defect: Callable[[Exception], StoredAnswer]


class KeySettings(Struct, frozen=True, kw_only=True):
    """What all requests with keys have in common in one process. ``node`` is the id of this one."""

    pool: Pool
    reader: KeyReader
    node: str
    retention: timedelta


class KeyedRequest:
    """A request with a key: the ``CommitGuard`` of its commits. ``request_hash`` tells what was asked, as 32 bytes."""

    # What nearly no request changes is of the class until one does: there are many requests.

    is_left = False
    """Whether the client has gone, and the run goes on."""
    joined: UnitOfWork | None = None
    """The transaction of another request that this one works in."""
    is_over = False
    """Whether it has its answer, or has ended without."""
    _token: str | None = None
    _ended: asyncio.Event | None = None
    _events: Sequence[StagedRow] = ()
    _failure_parts: Mapping[str, StagedPart] = MappingProxyType({})
    _compose: Callable[[object], Awaitable[StoredAnswer]] | None = None
    _compose_failure: Callable[[Failure], Awaitable[StoredAnswer]] | None = None
    _convert: Callable[[object], object] | None = None
    _chunk: "_Chunk | None" = None

    def __init__(
        self, settings: KeySettings, scope: KeyScope, request_hash: bytes, answer_format: AnswerFormat
    ) -> None:
        self.scope = scope
        self.request_hash = request_hash
        self.format = answer_format
        self._progress = Progress()
        self._settings = settings

    async def wait_for_end(self) -> None:
        """Wait until ``end``, as twins do, and who watches a run whose client has gone."""
        if not self.is_over:
            self._ended = self._ended or asyncio.Event()
            await self._ended.wait()

    def end(self) -> None:
        """Wake who waits for the end."""
        self.is_over = True
        if self._ended is not None:
            self._ended.set()

    @property
    def answer(self) -> StoredAnswer | None:
        """What is stored, once it is; of a request that joins a transaction, what will be."""
        return self._progress.answer

    @property
    def elements(self) -> tuple[str, ...]:
        """What became of the chunks of a collection so far, those of earlier attempts included."""
        return self._progress.elements

    @property
    def is_claimed(self) -> bool:
        """Whether something is stored of this attempt."""
        return self._progress.is_claimed

    @property
    def is_partly_durable(self) -> bool:
        """Whether something of the effect is durable before the end."""
        return self._progress.is_partly_durable

    def respond_with(self, compose: Callable[[object], Awaitable[StoredAnswer]]) -> None:
        """How the result that the use case hands in becomes the answer."""
        self._compose = compose

    def convert_results(self, convert: Callable[[object], object]) -> None:
        """What the answer is made of, where a use case commits with a result of its own."""
        self._convert = convert

    def open_chunk(
        self,
        before: Sequence[object],
        encode: Callable[[object], bytes],
        *,
        is_last: bool,
        conclude: Callable[[Failure], object] | None,
    ) -> None:
        """The next commit is that of a chunk of a collection, after those that became of what was ``before``. The
        answer is made of all of them. ``conclude`` is what a failure comes to that is not told as one.
        """
        self._chunk = _Chunk(tuple(before), encode, is_last)
        self._compose_failure = None if conclude is None else lambda failure: self.compose_answer(conclude(failure))

    def restart(self) -> None:
        """Begin a new attempt, of which nothing is stored."""
        self._progress = self._progress.restart()
        self._token, self._events, self._failure_parts = None, (), {}
        self._compose_failure, self._convert, self._chunk = None, None, None

    def resume(self, elements: tuple[str, ...]) -> None:
        """Go on with what an earlier attempt has begun: its record bears the token of this one."""
        self._progress = self._progress.resume(elements)

    @property
    def token(self) -> str:
        """Of the attempt."""
        if self._token is None:
            self._token = str(uuid4())
        return self._token

    async def is_overtaken(self) -> bool:
        """Whether another attempt has left a record, and this one has not: what became of this one is not to be told,
        since it may be due to that.
        """
        if self.is_claimed:
            return False
        try:
            return await self._settings.reader.find(self.scope) is not None
        except StorageUnavailable:
            return False

    # Beside the commits of a transaction: ``TransactionGuard``.

    async def prepare_callout(self) -> None:
        """Store a claim, unless something is stored already. Raises ``IdempotencyKeyTaken`` when another was faster."""
        if not self.is_claimed:
            if not await records.store_record(self._settings.pool, self._build_record("IN_PROGRESS")):
                raise IdempotencyKeyTaken
            self._progress = self._progress.claim()

    def stage_segment(self, overlay: Overlay) -> None:
        """Stage that the run has a part that is durable."""
        record = self._build_record(
            "IN_PROGRESS", transaction_id=overlay.label, entities=overlay.written_ids, is_segmented=True
        )
        _stage(overlay, record)

    def confirm_segment(self) -> None:
        """The run has a part that is durable."""
        self._progress = self._progress.add_segment()

    def keep_event(self, row: StagedRow, parts: Mapping[str, StagedPart]) -> bool:
        """Write the event with the failure that follows it."""
        self._events = (*self._events, row)
        self._failure_parts = parts
        return True

    # Around what use cases do: ``CommitGuard``.

    def commit(
        self, unit: UnitOfWork, result: object, commit: Callable[[], Awaitable[int | None]]
    ) -> Awaitable[int | None]:
        """Commit the unit with the record of this request and its answer.

        Raises ``BadRequest`` for an answer that is too large, ``IdempotencyKeyTaken`` and ``IdempotencyClaimLost``.
        """
        if self._convert is not None:
            result = self._convert(result)
        chunk = self._chunk
        if chunk is None or chunk.is_last:
            return self._commit_whole(unit, result if chunk is None else [*chunk.before, result], commit)
        return self._commit_chunk(unit, chunk.encode(result).decode(), commit)

    async def _commit_whole(
        self, unit: UnitOfWork, result: object, commit: Callable[[], Awaitable[int | None]]
    ) -> int | None:
        answer = await self.compose_answer(result)
        transaction = unit.label if unit.parent is None else unit.id
        record = self._build_record("DONE", answer=answer, transaction_id=transaction, entities=unit.written_ids)
        _stage(unit, record)
        at = await commit()
        if at is not None or unit.parent is not None:
            self._progress, self._convert = self._progress.finish(answer), None
        return at

    async def _commit_chunk(
        self, unit: UnitOfWork, element: str, commit: Callable[[], Awaitable[int | None]]
    ) -> int | None:
        """Commit a chunk that is not the last one. In a joined transaction nothing of it is durable before the last."""
        if unit.parent is not None:
            return await commit()
        entities = () if self._progress.stored == "segment" else unit.written_ids
        record = self._build_record("IN_PROGRESS", transaction_id=unit.label, entities=entities, element=element)
        _stage(unit, record)
        at = await commit()
        if at is not None:
            self._progress, self._convert = self._progress.add_chunk(element), None
        return at

    async def carry_out(self, act: Callable[[Pool], Awaitable[T]], conclude: Callable[[T], object], pool: Pool) -> T:
        """Do something by statements of its own, and record in the same transaction the answer that is made of what
        ``conclude`` makes of its result. What it refuses leaves nothing; one that gives False has had no effect, of
        which there is no record.
        """
        async with open_recorded_transaction(pool) as transaction:
            done = await act(transaction.pool)
            answer = await self.compose_answer(conclude(done)) if _has_effect(done) else None
            if answer is not None and not await transaction.write(self._build_record("DONE", answer=answer)):
                raise IdempotencyKeyTaken
        if answer is not None:
            self._progress = self._progress.finish(answer)
        return done

    async def amend_answer(self, result: object) -> None:
        """Keep another answer than the one that is stored, of which no client has been told. Raises
        ``StorageUnavailable``.
        """
        answer = await self.compose_answer(result)
        await records.amend_answer(self._settings.pool, self.scope, self.request_hash, answer)
        self._progress = self._progress.amend(answer)

    async def settle_failure(self, unit: UnitOfWork, failure: Failure) -> Failure:
        """The failure of a run in a transaction of its own, stored if a segment is durable. On record is, too, what may
        be due to another attempt: operators are not told.
        """
        if failure.failed_run is not None and await self.is_overtaken():
            failure = failure.amend(is_on_record=True)
        if unit.id != unit.label and self.must_record(failure) and await self.commit_failure(unit, failure):
            return failure.amend(is_on_record=True)
        return failure

    def must_record(self, failure: Failure) -> bool:
        """Whether a failure behind a segment is what the request came to, as far as is known."""
        return not isinstance(failure, OutcomeUnknown | IdempotencyClaimLost)

    async def commit_failure(self, unit: UnitOfWork | None, failure: Failure) -> bool:
        """Store the failure of a run of which something is durable, with the audit events that were kept for it;
        whether operators are told of it by that. Never fails itself: the failure of the run must reach its client.
        """
        compose = self._compose_failure
        answer = await compose(failure) if compose is not None else self.format.failure(failure)
        parts = self._failure_parts
        return await self.store_outcome(unit, answer) and bool(parts)

    async def store_outcome(self, unit: UnitOfWork | None, answer: StoredAnswer) -> bool:
        """Store an answer without an effect of its own, and what was kept for it; whether all of it is stored. A
        failure to do so is logged.
        """
        record, rows, parts = self._build_record("DONE", answer=answer), self._events, self._failure_parts
        self._events, self._failure_parts = (), {}
        is_whole = not parts
        try:
            if self.joined is not None:
                _stage(self.joined, record)
                is_stored = True
            elif unit is not None and rows:
                staged = {KEYS: KeyRecords(records=(record,))}
                is_stored = is_whole = bool(parts) and await _try_commit(unit, rows, {**parts, **staged})
                if not is_stored:
                    is_stored = await unit.commit_rows(rows, staged)
            else:
                is_stored = await records.store_record(self._settings.pool, record)
        except Failure as error:
            log.warning("idempotency_answer_lost", tenant=self.scope.tenant, error=error.detail)
            return False
        if is_stored:
            self._progress = self._progress.finish(answer)
        return is_stored and is_whole

    async def run_in_transaction(self, work: Callable[[Pool], Awaitable[StoredAnswer]]) -> StoredAnswer:
        """Do work on the pool that it is given, in one transaction with the record. What it refuses leaves nothing.

        Raises ``IdempotencyKeyTaken``.
        """
        try:
            async with open_recorded_transaction(self._settings.pool) as transaction:
                if not self.is_claimed and not await transaction.write(self._build_record("IN_PROGRESS")):
                    raise IdempotencyKeyTaken
                answer = await work(transaction.pool)
                _require_success(answer)
                done = self._build_record("DONE", answer=answer, claim=self.token)
                if not await transaction.write(done):
                    raise IdempotencyKeyTaken
        except _Refused as refused:
            return refused.answer
        self._progress = self._progress.finish(answer)
        return answer

    async def follow(self, work: Coroutine[object, object, T]) -> T:
        """Do work that goes on although the client may leave, and see to the record then."""
        try:
            return await work
        except Failure as failure:
            if self.is_left and self.answer is None and self.is_partly_durable:
                await self.commit_failure(None, failure)
            raise
        except Exception as defect:
            if self.is_left and self.answer is None and self.is_partly_durable:
                await self.store_outcome(None, self.format.defect(defect))
            raise
        finally:
            if self.is_left:
                if self.answer is None:
                    await self.give_up()
                self.end()

    def leave(self) -> None:
        """The client has gone, and the run goes on."""
        self.is_left = True

    async def give_up(self) -> None:
        """The attempt is over without an answer: nothing of it stays but what is durable of its effect. Raises
        ``StorageUnavailable``.
        """
        if self.is_claimed:
            await records.give_up(self._settings.pool, self.scope, self.token)

    async def compose_answer(self, result: object) -> StoredAnswer:
        """The answer that a result becomes. Raises ``BadRequest`` for one that is too large."""
        assert self._compose is not None, "the interface says how results become answers"  # noqa: S101
        answer = await self._compose(result)
        refuse_large_answer(answer)
        return answer

    def _build_record(
        self,
        status: KeyStatus,
        *,
        answer: StoredAnswer | None = None,
        transaction_id: str | None = None,
        entities: Sequence[str] = (),
        element: str | None = None,
        is_segmented: bool = False,
        claim: str | None = None,
    ) -> KeyRecord:
        kept = self._settings.retention if not is_segmented else INTERRUPTED_RETENTION
        claim = claim or (self.token if self.is_claimed else None)
        is_at_work = status == "IN_PROGRESS"
        return KeyRecord(
            tenant=self.scope.tenant,
            principal=self.scope.principal,
            key=self.scope.key,
            request_hash=self.request_hash.hex(),
            claim=claim,
            token=self.token if is_at_work else NOBODY,
            node=self._settings.node if is_at_work else "",
            status=status,
            is_segmented=is_segmented,
            transaction_id=transaction_id,
            entities=entities,
            element=element,
            answer_status=answer.status if answer else None,
            answer_type=answer.media_type if answer else None,
            answer=answer.body if answer else None,
            kept_us=to_us(kept),
        )


class _Chunk(Struct, frozen=True):
    """What a commit is of that is one of several."""

    before: tuple[object, ...]
    encode: Callable[[object], bytes]
    is_last: bool


class _Refused(Exception):
    """Undoes the transaction of work that ended with a refusal."""

    def __init__(self, answer: StoredAnswer) -> None:
        super().__init__(answer)
        self.answer = answer


async def _try_commit(unit: UnitOfWork, rows: Sequence[StagedRow], parts: Mapping[str, StagedPart]) -> bool:
    """Whether all of it could be committed; less of it may be possible."""
    try:
        return await unit.commit_rows(rows, parts)
    except Conflict:
        return False


def _has_effect(done: object) -> bool:
    return done is not False


def _require_success(answer: StoredAnswer) -> None:
    if not answer.is_success:
        raise _Refused(answer)
    refuse_large_answer(answer)


def refuse_large_answer(answer: StoredAnswer) -> None:
    """Raises ``BadRequest`` for an answer that is too large to be stored."""
    if len(answer.body) > MAX_ANSWER_CHARS:
        raise BadRequest(
            f"the answer has {len(answer.body)} characters; with an idempotency key {MAX_ANSWER_CHARS} are allowed"
        )


def find_staged_record(unit: UnitOfWork, scope: KeyScope) -> KeyRecord | None:
    """What an earlier request with the key has left in the same transaction."""
    for staged in unit.find_parts(KEYS):
        assert isinstance(staged, KeyRecords)  # noqa: S101 - nothing else is staged under this name
        for record in staged.records:
            if (record.tenant, record.principal, record.key) == (scope.tenant, scope.principal, scope.key):
                return record
    return None


def _stage(overlay: Overlay, record: KeyRecord) -> None:
    staged, mine = overlay.parts.get(KEYS), KeyRecords(records=(record,))
    overlay.parts[KEYS] = mine if staged is None else staged.merge(mine)
