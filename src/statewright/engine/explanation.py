"""What would move an entity, and what keeps it (docs/reference/operations.md#explain).

Pure: nothing is fired, asked or written. Which workflow governs and which transition comes first is decided as runs
decide it (``cascade``); a criterion is judged by the predicates that runs use.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Final, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from statewright.conditions import Function
from statewright.conditions.explaining import ConditionExplainer
from statewright.engine.models import Model, SentModel
from statewright.entity import Entity, EntityMeta, ScheduledTask
from statewright.ids import TransactionId
from statewright.jsonval.codec import decode_stored
from statewright.jsonval.values import JsonObject, JsonValue
from statewright.operations.explanations import Block, ProcessorOutlook, Rule, TransitionKind, Verdict
from statewright.workflow import DEFAULT_WORKFLOW, Criterion, Processor, Transition, Workflow, find_governing

Tags: TypeAlias = tuple[str, ...]
GOES_ON: Final = frozenset({"ASYNC_NEW_TX"})
"""Modes of processors whose failure a run survives."""


class Situation(Struct, frozen=True, kw_only=True):
    """What an explanation is made from. ``now`` is in epoch microseconds.

    ``timers`` are the entity's; ``member_counts`` says for each of ``list_needed_tags`` how many connected members
    declare all of these tags. None where they are not known, as for an instant of the past. ``transaction`` is an id
    that a run could have. ``answers`` is what members said of the criteria of transitions, by their names.
    """

    model: Model
    entity: Entity
    document: JsonValue
    now: int
    transaction: TransactionId
    timers: Sequence[ScheduledTask] | None
    member_counts: Mapping[Tags, int] | None
    answers: "Mapping[str, FunctionAnswer]" = {}


class SentSituation(Struct, frozen=True, kw_only=True):
    """The same as another process is sent it; the document is that of the entity."""

    model: SentModel
    entity: Entity
    now: int
    transaction: TransactionId
    timers: Sequence[ScheduledTask] | None
    member_counts: Mapping[Tags, int] | None
    answers: "Mapping[str, FunctionAnswer]"


class FunctionAnswer(Struct, frozen=True, kw_only=True):
    """What a member said of a criterion: whether it holds, and why not. ``error``: it said nothing that counts, which
    may pass.
    """

    matches: bool | None = None
    reason: str | None = None
    error: str | None = None


class TransitionOutlook(Struct, frozen=True, kw_only=True):
    """A transition of the state. ``would_fire``: an automated one on a loopback now, a manual one when it is named now,
    a scheduled one at the next scan; None when that depends on a member that was not asked.
    """

    name: str
    next: str
    kind: TransitionKind
    disabled: bool
    would_fire: bool | None
    blocked_by: tuple[Block, ...]
    criterion: "JsonObject | None"
    processors: tuple[ProcessorOutlook, ...]
    timer: ScheduledTask | None


class Explanation(Struct, frozen=True, kw_only=True):
    """Where an entity is and what would move it. ``passed_over`` are the active workflows that the entity could have
    had in place of the default one.
    """

    workflow: str | None
    rule: Rule
    passed_over: tuple[str, ...]
    verdict: Verdict
    summary: str
    transitions: tuple[TransitionOutlook, ...]


def hold_transitions(explanation: Explanation, names: Collection[str] | None) -> Explanation:
    """The explanation where transitions are suspended: those of these ``names``, None: all of them."""
    held = [each for each in explanation.transitions if names is None or each.name in names]
    if not held:
        return explanation
    transitions = tuple(
        replace(each, would_fire=False, blocked_by=(*each.blocked_by, "SUSPENDED")) if each in held else each
        for each in explanation.transitions
    )
    return replace(explanation, transitions=transitions)


def explain_sent(sent: SentSituation) -> "Explanation":
    """As :func:`explain_entity`, in another process."""
    situation = Situation(
        model=sent.model.compile(),
        entity=sent.entity,
        document=decode_stored(sent.entity.document),
        now=sent.now,
        transaction=sent.transaction,
        timers=sent.timers,
        member_counts=sent.member_counts,
        answers=sent.answers,
    )
    return explain_entity(situation)


def explain_entity(situation: Situation) -> Explanation:
    """What would move the entity."""
    model, entity = situation.model, situation.entity
    workflow = find_governing(model.workflows, entity.state, entity.workflow)
    outlooks = () if workflow is None else tuple(_Outlooks(situation, workflow).list_all())
    verdict: Verdict = "STATE_UNKNOWN" if workflow is None else _judge(outlooks)
    passed_over = [each.name for each in model.workflows if each.active] if workflow is DEFAULT_WORKFLOW else []
    return Explanation(
        workflow=workflow.name if workflow else None,
        rule=_find_rule(workflow, entity.workflow),
        passed_over=tuple(passed_over),
        verdict=verdict,
        summary=_summarise(verdict, entity.state, outlooks),
        transitions=outlooks,
    )


def list_needed_tags(model: Model, entity: Entity) -> frozenset[Tags]:
    """The sets of tags that criteria and processors of the entity's state ask for."""
    workflow = find_governing(model.workflows, entity.state, entity.workflow)
    transitions = () if workflow is None else workflow.list_transitions(entity.state)
    criteria = (transition.criterion.condition for transition in transitions if transition.criterion)
    processors = (processor for transition in transitions for processor in transition.processors)
    asked = [condition.tags for condition in criteria if isinstance(condition, Function)]
    return frozenset((*asked, *(processor.config.tags for processor in processors)))


def list_asked(model: Model, entity: Entity) -> tuple[Workflow | None, tuple[Transition, ...]]:
    """The governing workflow, and the transitions of the entity's state whose criteria a member judges."""
    workflow = find_governing(model.workflows, entity.state, entity.workflow)
    transitions = () if workflow is None else workflow.list_transitions(entity.state)
    asked = (each for each in transitions if each.criterion and isinstance(each.criterion.condition, Function))
    return workflow, tuple(each for each in asked if not each.disabled)


def _find_rule(workflow: Workflow | None, remembered_name: str) -> Rule:
    if workflow is None:
        return "NONE"
    if workflow is DEFAULT_WORKFLOW:
        return "DEFAULT"
    return "REMEMBERED" if workflow.name == remembered_name else "FIRST_WITH_STATE"


class _Outlooks:
    """The transitions of a state in order, each with what blocks it."""

    def __init__(self, situation: Situation, workflow: Workflow) -> None:
        self._situation = situation
        self._transitions = workflow.list_transitions(situation.entity.state)
        self._decided: Block | None = None
        """What holds up the automated transitions that follow: ``SHADOWED`` once one of them fires or stops the run,
        ``UNKNOWN`` once that depends on a member.
        """

    def list_all(self) -> list[TransitionOutlook]:
        return [self._look_at(transition) for transition in self._transitions]

    def _look_at(self, transition: Transition) -> TransitionOutlook:
        kind: TransitionKind = "SCHEDULED" if transition.schedule else "MANUAL" if transition.manual else "AUTOMATED"
        timer = self._find_timer(transition) if kind == "SCHEDULED" else None
        criterion, result, criterion_block = self._judge_criterion(kind, transition)
        processors = tuple(map(self._look_at_processor, transition.processors))
        blocks: list[Block] = ["DISABLED"] if transition.disabled else []
        if criterion_block is not None:
            blocks.append(criterion_block)
        if kind == "SCHEDULED" and (timing := self._find_timing(timer)) is not None:
            blocks.append(timing)
        if any(each.members == 0 and each.mode not in GOES_ON for each in processors):
            blocks.append("NO_MEMBER")
        if transition.is_automated:
            if self._decided is not None:
                blocks.append(self._decided)
            self._decide(result, criterion_block)
        blocked_by = tuple(dict.fromkeys(blocks))
        return TransitionOutlook(
            name=transition.name,
            next=transition.next,
            kind=kind,
            disabled=transition.disabled,
            would_fire=None if set(blocked_by) == {"UNKNOWN"} else not blocked_by,
            blocked_by=blocked_by,
            criterion=criterion,
            processors=processors,
            timer=timer,
        )

    def _decide(self, result: bool | None, block: Block | None) -> None:
        """What an automated transition means to those after it: one that holds is taken, and one that cannot be judged
        stops the run; so does a question that no member can answer.
        """
        if self._decided == "SHADOWED" or result is False:
            return
        self._decided = "UNKNOWN" if block == "UNKNOWN" or self._decided == "UNKNOWN" else "SHADOWED"

    def _judge_criterion(
        self, kind: TransitionKind, transition: Transition
    ) -> "tuple[JsonObject | None, bool | None, Block | None]":
        criterion = transition.criterion
        if criterion is None:
            return None, True, None
        if isinstance(criterion.condition, Function):
            return self._look_at_function(criterion.condition, self._situation.answers.get(transition.name))
        explained = self._explain_criterion(criterion, self._build_meta(kind, transition))
        result = explained["result"]
        holds = result if isinstance(result, bool) else None
        return explained, holds, None if holds else "CRITERION"

    def _explain_criterion(self, criterion: Criterion, meta: EntityMeta) -> JsonObject:
        if criterion.condition is None:
            return {"result": None, "error": criterion.defect}
        explainer = ConditionExplainer(self._situation.model.declared, self._situation.document, meta)
        return explainer.explain(criterion.condition)

    def _look_at_function(
        self, function: Function, answer: FunctionAnswer | None
    ) -> tuple[JsonObject, bool | None, Block | None]:
        shown: JsonObject = {"type": "function", "name": function.name, "tags": list(function.tags), "result": None}
        members = self._count(function.tags)
        if members is not None:
            shown["members"] = members
        if answer is None or members == 0:
            return shown, None, "NO_MEMBER" if members == 0 else "UNKNOWN"
        told = {"result": answer.matches, "reason": answer.reason, "error": answer.error}
        shown |= {name: value for name, value in told.items() if value is not None}
        if answer.matches is None:
            return shown, None, "UNKNOWN"
        return shown, answer.matches, None if answer.matches else "CRITERION"

    def _look_at_processor(self, processor: Processor) -> ProcessorOutlook:
        config = processor.config
        return ProcessorOutlook(
            name=processor.name, mode=processor.mode, tags=config.tags, members=self._count(config.tags)
        )

    def _count(self, tags: Tags) -> int | None:
        counts = self._situation.member_counts
        return None if counts is None else counts[tags]

    def _find_timer(self, transition: Transition) -> ScheduledTask | None:
        state = self._situation.entity.state
        timers = self._situation.timers or ()
        return next((t for t in timers if (t.key.state, t.key.transition) == (state, transition.name)), None)

    def _find_timing(self, timer: ScheduledTask | None) -> Block | None:
        """What keeps a scheduled transition from firing at this moment, as far as time goes."""
        if self._situation.timers is None:
            return "UNKNOWN"
        if timer is None:
            return "NOT_DUE"
        now_ms = self._situation.now // 1000
        fire_at, timeout_ms = timer.arming.fire_at, timer.arming.timeout_ms
        is_expired = timeout_ms is not None and now_ms > fire_at + timeout_ms
        return "NOT_DUE" if now_ms < fire_at or is_expired else None

    def _build_meta(self, kind: TransitionKind, transition: Transition) -> EntityMeta:
        """What lifecycle conditions would see in a run that begins now (``EntityDraft.to_meta``)."""
        entity = self._situation.entity
        previous: Mapping[TransitionKind, str] = {
            "AUTOMATED": "",
            "MANUAL": transition.name,
            "SCHEDULED": entity.transition,
        }
        return EntityMeta(
            id=entity.id,
            state=entity.state,
            creation_date=entity.created_at // 1000,
            last_update_time=self._situation.now // 1000,
            transition=previous[kind],
            transaction_id=self._situation.transaction,
        )


def _judge(outlooks: Sequence[TransitionOutlook]) -> Verdict:
    enabled = [each for each in outlooks if not each.disabled]
    automated = [each for each in enabled if each.kind == "AUTOMATED"]
    if not enabled:
        return "TERMINAL"
    if any(each.would_fire for each in automated):
        return "READY"
    waiting = (each for each in enabled if each.kind != "MANUAL")
    if any("NO_MEMBER" in each.blocked_by and not {"CRITERION", "NOT_DUE"} & {*each.blocked_by} for each in waiting):
        return "WAITS_FOR_WORKER"
    if any(each.timer is not None for each in enabled):
        return "WAITS_FOR_TIMER"
    return "WAITS_FOR_CRITERION" if automated else "WAITS_FOR_MANUAL"


def _summarise(verdict: Verdict, state: str, outlooks: Sequence[TransitionOutlook]) -> str:
    manual = [each.name for each in outlooks if each.kind == "MANUAL" and each.would_fire is not False]
    ready = next((each.name for each in outlooks if each.kind == "AUTOMATED" and each.would_fire), "")
    missing = next((each.name for each in outlooks if "NO_MEMBER" in each.blocked_by), "")
    timed = sorted(each.name for each in outlooks if each.timer is not None)
    match verdict:
        case "STATE_UNKNOWN":
            text = f"No active workflow of the model has the state {state}; updates are saved, and nothing fires."
        case "TERMINAL":
            text = f"Nothing leads out of {state}."
        case "READY":
            text = f"A save without a transition would fire {ready}."
        case "WAITS_FOR_WORKER":
            text = f"{missing} needs a calculation member, and none with its tags is connected."
        case "WAITS_FOR_TIMER":
            text = f"Waits for the time of {', '.join(timed)}."
        case "WAITS_FOR_CRITERION":
            text = f"No automated transition out of {state} matches."
        case _:
            text = f"{state} is left by name only."
    offered = f" It can be moved by name: {', '.join(manual[:MAX_LISTED])}." if manual else ""
    return text + offered


MAX_LISTED: Final = 10
"""Transitions that a summary names."""
