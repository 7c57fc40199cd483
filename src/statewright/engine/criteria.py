"""Evaluating criteria: in memory, or by a calculation member (docs/reference/workflows.md#criteria).

Judging a criterion in another process, which compiles it for itself, and remembers it.
"""

from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from functools import partial
from hashlib import sha256
from typing import Final, Protocol

from msgspec import Struct

from statewright.compute.callout import CalloutResult
from statewright.conditions import EvaluationError, Function, Predicate, Visits, compile_predicate, parse
from statewright.engine.callouts import CalloutDispatcher, build_criterion_spec
from statewright.engine.models import Model
from statewright.engine.run import EntityDraft, Run
from statewright.entity import EntityMeta
from statewright.failures import ComputationKilled
from statewright.ids import TenantId
from statewright.jsonval.codec import decode_stored, encode
from statewright.jsonval.values import JsonValue
from statewright.loop.background import run_in_thread
from statewright.loop.lru import LruCache
from statewright.loop.turns import TurnExceeded
from statewright.schema import DeclaredField
from statewright.workflow import Criterion, Transition

MAX_SOURCE_BYTES: Final = 4 * 1024 * 1024
"""Of all criteria that a process remembers."""

_compiled: LruCache[bytes, tuple[Predicate, Mapping[str, DeclaredField], int]] = LruCache(
    MAX_SOURCE_BYTES, lambda found: found[2]
)
"""With the fields for which they were compiled, and the size of their source."""


def judge_criterion(source: JsonValue, declared: Mapping[str, DeclaredField], text: str, meta: EntityMeta) -> bool:
    """Whether a criterion holds for an entity with a document of this text. Raises ``EvaluationError``."""
    written = encode(source)
    key = sha256(written).digest()
    found = _compiled.get(key)
    if found is None or found[1] != declared:
        found = (compile_predicate(parse(source), declared), declared, len(written))
        _compiled.put(key, found)
    return found[0](decode_stored(text), meta, Visits())


NO_REASON: Final = "criterion did not match"
"""What the audit trail says of a criterion that does not hold when its member gave no reason
(docs/reference/workflows.md#criteria).
"""

MAX_REASON_BYTES: Final = 2048
"""UTF-8 bytes of a member's reason that are kept."""


class CriterionResult(Struct, frozen=True):
    """Whether a criterion holds; ``reason`` is the member's own when it does not, None when it gave none;
    ``warnings`` are the member's, too.
    """

    matches: bool
    reason: str | None = None
    warnings: tuple[str, ...] = ()

    @property
    def audit_reason(self) -> str:
        return self.reason or NO_REASON


class Computations(Protocol):
    """Processes that can be killed (``statewright.computations``), which an installation without a server lacks."""

    def compute(self, tenant: TenantId, kind: str, function: Callable[[], bool], /) -> Awaitable[bool]:
        """Raises ``ComputationKilled``, ``ComputationsBusy``, and what the function raises."""
        ...


class CriterionEvaluator(Struct, frozen=True, kw_only=True):
    """Evaluates any criterion, external ones by a calculation member."""

    dispatcher: CalloutDispatcher
    computations: Computations | None = None
    """Has what is too long for a turn; None: it is judged at once, where nobody else waits."""

    async def evaluate(
        self, run: Run, draft: EntityDraft, criterion: Criterion, transition: Transition | None
    ) -> CriterionResult:
        """Whether the criterion holds. ``transition`` is None while a workflow is being selected.

        Raises ``EvaluationError`` when it cannot be evaluated, and the failures of ``CalloutTransport.dispatch``.
        """
        if isinstance(criterion.condition, Function):
            return await self._ask(run, draft, criterion.condition, transition)
        with suppress(TurnExceeded):
            return CriterionResult(evaluate_in_memory(run.model, criterion, draft, Visits(within_turn=True)))
        return CriterionResult(await self.judge_long(run, draft, criterion))

    async def judge_long(self, run: Run, draft: EntityDraft, criterion: Criterion) -> bool:
        """Whether a criterion that needs no member holds, which is too long for a turn of the event loop.

        Raises ``EvaluationError``, also when a process was killed over it, and ``ComputationsBusy``.
        """
        if self.computations is None:
            return evaluate_in_memory(run.model, criterion, draft, Visits())
        if criterion.condition is not None and not run.model.has_predicate(criterion):
            # Bounded by its size, and done once: most of what is long to compile is quick to judge.
            await run_in_thread(partial(run.model.get_predicate, criterion))
            with suppress(TurnExceeded):
                return evaluate_in_memory(run.model, criterion, draft, Visits(within_turn=True))
        judge = partial(judge_criterion, criterion.source, run.model.declared, draft.text, draft.to_meta())
        try:
            return await self.computations.compute(run.unit.tenant, "criterion", judge)
        except ComputationKilled as killed:
            raise EvaluationError(killed.message) from killed

    async def _ask(
        self, run: Run, draft: EntityDraft, function: Function, transition: Transition | None
    ) -> CriterionResult:
        rule = transition.criterion_retry if transition else run.workflow.criterion_retry
        spec = build_criterion_spec(function, target="TRANSITION" if transition else "WORKFLOW")
        reply = await self.dispatcher.ask_by_rule(spec, run, draft, transition, rule)
        run.tell_warnings("criteria", function.name, reply.warnings)
        if not reply.success:
            raise EvaluationError(f"criteria dispatch failed: {reply.error or 'criteria returned failure'}")
        reason = None if reply.matches else _truncate_reason(reply)
        return CriterionResult(reply.matches, reason, reply.warnings)

    async def ask_outside(
        self, run: Run, draft: EntityDraft, function: Function, transition: Transition, *, within_s: float
    ) -> CriterionResult:
        """What a member says of a criterion now, once and outside any transaction. Raises as ``evaluate``."""
        spec = build_criterion_spec(function, target="TRANSITION")
        reply = await self.dispatcher.ask(spec, run, draft, transition, joins=False, within_s=within_s)
        if not reply.success:
            raise EvaluationError(f"criteria dispatch failed: {reply.error or 'criteria returned failure'}")
        return CriterionResult(reply.matches, _truncate_reason(reply), reply.warnings)


def evaluate_in_memory(model: Model, criterion: Criterion, draft: EntityDraft, visits: Visits) -> bool:
    """Whether a criterion that needs no member holds. Raises ``EvaluationError``, and ``TurnExceeded`` when only the
    visits of a turn are left.
    """
    if criterion.condition is None:
        raise EvaluationError(criterion.defect)
    predicate = model.get_predicate(criterion, within_turn=visits.within_turn)
    return predicate(draft.document, draft.to_meta(), visits)


def _truncate_reason(reply: CalloutResult) -> str | None:
    """The member's reason, cut to :data:`MAX_REASON_BYTES` at a character boundary; None when it gave none."""
    return reply.reason.encode()[:MAX_REASON_BYTES].decode(errors="ignore") if reply.reason else None
