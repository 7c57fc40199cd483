"""Evaluating criteria: in memory, or by a calculation member (docs/reference/workflows.md#criteria)."""

from collections.abc import Awaitable
from contextlib import suppress
from functools import partial
from typing import Final

from msgspec import Struct

from statewright.background import run_in_thread
from statewright.compute.callout import CalloutResult
from statewright.conditions import EvaluationError, Function, Visits
from statewright.engine.attempts import RepeatedCallout
from statewright.engine.callouts import CalloutDispatcher, build_criterion_spec
from statewright.engine.models import Model
from statewright.engine.run import EntityDraft, Run
from statewright.turns import TurnExceeded
from statewright.workflow import Criterion, Transition
from statewright.workflow.retries import RetryRule

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


class CriterionEvaluator(Struct, frozen=True, kw_only=True):
    """Evaluates any criterion, external ones by a calculation member."""

    dispatcher: CalloutDispatcher

    async def evaluate(
        self, run: Run, draft: EntityDraft, criterion: Criterion | None, transition: Transition | None
    ) -> CriterionResult:
        """Whether the criterion holds; none always does. ``transition`` is None while a workflow is being selected.

        Raises ``EvaluationError`` when it cannot be evaluated, and the failures of ``CalloutTransport.dispatch``.
        """
        if criterion is None:
            return CriterionResult(True)
        if isinstance(criterion.condition, Function):
            return await self._ask(run, draft, criterion.condition, transition)
        with suppress(TurnExceeded):
            return CriterionResult(evaluate_in_memory(run.model, criterion, draft, Visits(within_turn=True)))
        holds = await run_in_thread(partial(evaluate_in_memory, run.model, criterion, draft, Visits()))
        return CriterionResult(holds)

    async def _ask(
        self, run: Run, draft: EntityDraft, function: Function, transition: Transition | None
    ) -> CriterionResult:
        rule = transition.criterion_retry if transition else run.workflow.criterion_retry
        reply = await self._ask_by_rule(run, draft, function, transition, rule)
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
        reply = await self.dispatcher.ask_outside(spec, run, draft, transition, within_s=within_s)
        if not reply.success:
            raise EvaluationError(f"criteria dispatch failed: {reply.error or 'criteria returned failure'}")
        return CriterionResult(reply.matches, _truncate_reason(reply), reply.warnings)

    def _ask_by_rule(
        self,
        run: Run,
        draft: EntityDraft,
        function: Function,
        transition: Transition | None,
        rule: RetryRule | None,
    ) -> Awaitable[CalloutResult]:
        spec, dispatcher = (
            build_criterion_spec(function, target="TRANSITION" if transition else "WORKFLOW"),
            self.dispatcher,
        )
        if rule is None:
            return dispatcher.ask(spec, run, draft, transition)
        repeated = RepeatedCallout(
            attempt=lambda run, *, avoiding, within_s: dispatcher.ask(
                spec, run, draft, transition, avoiding=avoiding, within_s=within_s
            ),
            rule=rule,
            kind="criteria",
            name=function.name,
            joins=True,
            metrics=dispatcher.metrics,
        )
        return repeated.ask(run)


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
