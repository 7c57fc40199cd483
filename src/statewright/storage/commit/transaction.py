"""A transaction as all its units share it: its present segment, its clock, its way to the database, and its gate.

One participant at a time works on a transaction: it holds the gate, and lets go of it for the length of every callout;
so joined requests follow each other, see each other's work, and may themselves wait for callbacks to any depth
(docs/reference/workflows.md#callbacks). The owner holds the gate from the beginning: no other can know of the
transaction before its first callout. A savepoint is part of the participant that opened it, and has the same ``Gate``.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from time import perf_counter
from types import TracebackType
from typing import Protocol, assert_never

from msgspec.structs import replace

from statewright.entity import Actor
from statewright.failures import Failure, UniqueViolation
from statewright.ids import ModelId, TenantId, TransactionId
from statewright.storage.columns import StagedRow
from statewright.storage.commit.group_commit import GroupCommit
from statewright.storage.commit.overlay import Overlay
from statewright.storage.commit.statement import LOST_REASONS, PASSES, Pass, build_suspended
from statewright.storage.commit.submission import (
    AppliedSubmission,
    ModelLockLost,
    PartRefused,
    StagedPart,
    Stale,
    Submission,
    UniqueKeyTaken,
    Verdict,
)
from statewright.storage.entities import EntityReader


class Gate:
    """The gate as one participant has it: the owner of the transaction, or a request that joins it at ``owner``."""

    __slots__ = ("_is_held", "_lock", "_owner")

    def __init__(self, owner: "Gate | None" = None) -> None:
        self._owner = owner
        self._lock: asyncio.Lock | None = None  # of the owner's, from its first callout on
        self._is_held = owner is None

    @property
    def owner(self) -> "Gate":
        """That of the transaction's owner."""
        return self if self._owner is None else self._owner

    async def take(self) -> None:
        """Wait until the gate is free, and hold it."""
        lock = self.owner._lock
        assert lock is not None, "a transaction is joined during callouts only"  # noqa: S101
        await lock.acquire()
        self._is_held = True

    def release(self) -> None:
        """Let others work on the transaction, if this one held them off."""
        owner = self.owner
        if owner._lock is None:
            owner._lock = asyncio.Lock()
        elif self._is_held:
            owner._lock.release()
        self._is_held = False

    def close(self) -> None:
        """The participant has ended."""
        if self.owner._lock is not None:
            self.release()
        self._is_held = False


class ReleasedGate:
    """The length of an ``async with`` block, during which others may work on a transaction."""

    __slots__ = ("_gate",)

    def __init__(self, gate: Gate) -> None:
        self._gate = gate

    async def __aenter__(self) -> None:
        self._gate.release()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not isinstance(error, asyncio.CancelledError):  # then the unit is dropped, and needs no gate for that
            await self._gate.take()


class TransactionGuard(Protocol):
    """What is written beside the segments of a transaction by the request that began it."""

    async def prepare_callout(self) -> None:
        """To be done before anything outside can learn of the transaction. Raises the failure of a request that must
        not go on.
        """
        ...

    def stage_segment(self, overlay: Overlay) -> None:
        """Stage what belongs to a commit that is not the last one."""
        ...

    def confirm_segment(self) -> None:
        """That commit has succeeded."""
        ...

    def keep_event(self, row: StagedRow, parts: Mapping[str, StagedPart]) -> bool:
        """Whether it writes this audit event, and optional parts, with the failure that is about to end the run."""
        ...


class Transaction:
    """``id`` names the segment that is open now; a transaction that commits no segments on its way has only one.

    ``origin`` is whom its writes are attributed to when a service or the system executes them
    (docs/reference/workflows.md#attribution-of-runs). ``on_model_change`` is called for models that caches must look
    for again. ``guards`` write beside it.
    """

    __slots__ = (
        "_commits",
        "_created_at",
        "_last_event_at",
        "_on_model_change",
        "clock",
        "describe_failure",
        "guards",
        "id",
        "origin",
        "reader",
    )

    def __init__(
        self,
        id: TransactionId,  # noqa: A002 - the field's own name
        *,
        reader: EntityReader,
        commits: GroupCommit,
        clock: Callable[[], int],
        origin: Actor | None = None,
        on_model_change: Callable[[TenantId, ModelId], None] | None = None,
        guards: Sequence[TransactionGuard] = (),
    ) -> None:
        self.id = id
        self.guards = guards
        self.reader = reader
        self.clock = clock
        self.origin = origin
        self.describe_failure: Callable[[Failure], Mapping[str, StagedPart]] | None = None
        self._commits = commits
        self._on_model_change = on_model_change
        self._created_at = perf_counter()
        self._last_event_at = 0

    def count_begin(self) -> None:
        """Its owner begins to work."""
        self._commits.metrics.count_begin(perf_counter() - self._created_at)

    def count_end(self, *, since: float, failed: bool) -> None:
        """Its owner has ended; what was left to do took from ``since`` on."""
        self._commits.metrics.count_end(perf_counter() - since if failed else None)

    def take_event_time(self) -> int:
        """An instant for the next audit event, later than all before it in this transaction."""
        now = self.clock()
        self._last_event_at = at = now if now > self._last_event_at else self._last_event_at + 1
        return at

    async def commit(self, overlay: Overlay) -> int | None:
        """Apply what is staged in the owner's overlay, or nothing of it; raises as ``UnitOfWork.commit`` does."""
        submission = overlay.build_submission(self.id)
        if submission is None:
            return None
        try:
            verdict = await self._commits.commit(submission)
            if isinstance(verdict, PartRefused) and verdict.build_failure is build_suspended:
                verdict = await self._commit_half_done(submission, overlay, verdict)
        finally:
            self._notify_model_change(overlay.tenant, overlay.growth)
        match verdict:
            case AppliedSubmission(at):
                if overlay.tasks:
                    self._commits.metrics.count_timers(overlay.events.values())
                return at
            case UniqueKeyTaken():
                raise UniqueViolation
            case ModelLockLost(reason):
                self._notify_model_change(overlay.tenant, (model for _, model, _ in submission.model_locks))
                failure = LOST_REASONS[reason]()
                raise failure
            case PartRefused(build_failure, reason):
                failure = build_failure(reason)
                raise failure
            case Stale(entities):
                raise overlay.build_conflict(entities)
            case _:
                assert_never(verdict)

    async def _commit_half_done(self, submission: Submission, overlay: Overlay, verdict: PartRefused) -> Verdict:
        """A run of which a segment is durable comes to its end, although an entity was suspended since: a call that is
        half done helps nobody.
        """
        if self.id == overlay.label:
            self._commits.metrics.suspended += 1
            return verdict
        return await self._commits.commit(replace(submission, parts={**submission.parts, PASSES.name: Pass()}))

    async def commit_rows(self, rows: Sequence[StagedRow], parts: Mapping[str, StagedPart] | None = None) -> bool:
        """Apply some rows, with optional parts, and nothing of what is staged; whether they were applied."""
        return isinstance(await self._commits.commit(Submission(rows=rows, parts=parts or {})), AppliedSubmission)

    def _notify_model_change(self, tenant: TenantId, models: Iterable[ModelId]) -> None:
        """Caches of definitions must look again: after a refusal, too, which shows that what they knew is old."""
        if self._on_model_change is not None:
            for model in models:
                self._on_model_change(tenant, model)
