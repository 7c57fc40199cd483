"""Judging criteria: in memory, or by a calculation member (spec/workflows.md §9)."""

from msgspec import Struct

from statewright.compute.callout import Reply
from statewright.conditions import EvaluationError, Function
from statewright.engine.callouts import Desk, criterion_request
from statewright.engine.model import Model
from statewright.engine.run import Run
from statewright.engine.subject import Subject
from statewright.workflow import Criterion, Transition

NO_REASON = "criterion did not match"
"""What the audit trail says when nobody gave a reason (spec/workflows.md §9)."""

MAX_REASON_BYTES = 2048


class Judgement(Struct, frozen=True):
    """Whether a criterion holds, and what its member said when it does not."""

    matches: bool
    reason: str | None = None

    @property
    def audit_reason(self) -> str:
        return self.reason or NO_REASON


class Judge(Struct, frozen=True, kw_only=True):
    """Judges any criterion."""

    desk: Desk

    async def judge(
        self, run: Run, subject: Subject, criterion: Criterion | None, transition: Transition | None
    ) -> Judgement:
        """Whether the criterion holds; none always does. ``transition`` is None while a workflow is being selected.

        Raises ``EvaluationError`` when it cannot be told, and the failures of ``Callouts.dispatch``.
        """
        if criterion is None:
            return Judgement(True)
        if isinstance(criterion.condition, Function):
            return await self._ask(run, subject, criterion.condition, transition)
        return Judgement(holds(run.model, criterion, subject))

    async def _ask(self, run: Run, subject: Subject, function: Function, transition: Transition | None) -> Judgement:
        request = criterion_request(function, target="TRANSITION" if transition else "WORKFLOW")
        reply = await self.desk.ask(request, run, subject, transition)
        run.unit.warnings += [f"criteria {function.name}: {warning}" for warning in reply.warnings]
        if not reply.success:
            raise EvaluationError(f"criteria dispatch failed: {reply.error or 'criteria returned failure'}")
        return Judgement(reply.matches, None if reply.matches else _reason(reply))


def holds(model: Model, criterion: Criterion, subject: Subject) -> bool:
    """Whether a criterion that needs no member holds. Raises ``EvaluationError``."""
    if criterion.condition is None:
        raise EvaluationError(criterion.defect)
    return model.predicate(criterion)(subject.document, subject.meta())


def _reason(reply: Reply) -> str | None:
    """The member's reason, cut at a character boundary."""
    return reply.reason.encode()[:MAX_REASON_BYTES].decode(errors="ignore") if reply.reason else None
