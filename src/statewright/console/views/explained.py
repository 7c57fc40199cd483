"""What `explain` says of an entity, for people: transitions with the reasons, criteria as trees
(docs/reference/operations.md#explain).
"""

from collections.abc import Mapping
from typing import Final

from msgspec import UNSET, Struct, UnsetType, convert

from statewright.console.views.entities import cut_json
from statewright.jsonval.values import JsonObject
from statewright.operations.explanations import ExplainedEntity, ExplainedTransition
from statewright.operations.records import Members, Record, Value

MAX_VALUE_CHARS: Final = 200
MAX_DEPTH: Final = 50

VERDICTS: Final[Mapping[str, tuple[str, str]]] = {
    "SUSPENDED": ("warn", "suspended"),
    "FAILED": ("bad", "failed"),
    "STATE_UNKNOWN": ("bad", "its state is in no workflow"),
    "TERMINAL": ("off", "final state, nothing can move it"),
    "READY": ("ok", "the next save moves it"),
    "WAITS_FOR_WORKER": ("bad", "waits for a worker"),
    "WAITS_FOR_TIMER": ("wait", "waits for a time"),
    "WAITS_FOR_CRITERION": ("warn", "waits for a criterion"),
    "WAITS_FOR_MANUAL": ("wait", "waits for somebody"),
}
_REASONS: Final[Mapping[str, tuple[str, str]]] = {
    "NO_MEMBER": ("bad", "no worker with its tags is connected"),
    "SUSPENDED": ("warn", "it is suspended"),
    "CRITERION": ("warn", "its criterion does not hold"),
    "DISABLED": ("off", "it is switched off"),
    "NOT_DUE": ("wait", "it is not due"),
    "SHADOWED": ("off", "another transition fires before it"),
    "UNKNOWN": ("off", "a worker would have to be asked"),
}
_KINDS: Final[Mapping[str, str]] = {"MANUAL": "manual", "AUTOMATED": "automatic", "SCHEDULED": "scheduled"}


class Judgement(Struct, frozen=True, kw_only=True):
    """A criterion or a part of one: what it asks, what was found, and how it was judged.

    ``result``: ``None`` where nobody could judge it.
    """

    text: str
    result: bool | None
    found: str = ""
    error: str = ""
    parts: "tuple[Judgement, ...]" = ()
    left_out: int = 0


class WayOut(Struct, frozen=True, kw_only=True):
    """A way out of the state, and whether it can be taken now."""

    told: ExplainedTransition
    reasons: tuple[tuple[str, str], ...]
    """Why it cannot be taken, each with its mark."""
    criterion: Judgement | None

    @property
    def kind(self) -> str:
        """In a word."""
        return _KINDS.get(self.told.kind, "automatic")

    @property
    def is_possible(self) -> bool:
        """Whether it fires if it is asked for now, as far as can be said without asking a worker."""
        return self.told.would_fire is True

    @property
    def can_be_fired(self) -> bool:
        """Whether a client can ask for it."""
        return self.kind != "scheduled" and self.told.would_fire is not False

    @property
    def mark(self) -> str:
        """The worst of its reasons."""
        if self.is_possible:
            return "ok"
        marks = [mark for mark, _ in self.reasons]
        return next((mark for mark in ("bad", "warn", "wait", "off") if mark in marks), "off")

    @property
    def missing(self) -> tuple[tuple[str, str], ...]:
        """Processors without a worker, with their tags."""
        idle = (each for each in self.told.processors if each.members == 0)
        return tuple((each.name, ", ".join(each.tags) or "any") for each in idle)


class Explanation(Struct, frozen=True, kw_only=True):
    """Why an entity is where it is."""

    told: ExplainedEntity
    transitions: tuple[WayOut, ...]

    @property
    def verdict(self) -> tuple[str, str]:
        """Mark and words."""
        return VERDICTS.get(self.told.verdict, ("info", self.told.verdict.lower()))

    @property
    def rule(self) -> str:
        """By which rule the workflow was found."""
        return _RULES.get(self.told.workflow.rule, "")


def view_explanation(told: ExplainedEntity) -> Explanation:
    """The explanation in words."""
    return Explanation(told=told, transitions=tuple(map(_view_transition, told.transitions)))


_RULES: Final[Mapping[str, str]] = {
    "REMEMBERED": "the one in which it was created",
    "FIRST_WITH_STATE": "the first active one that has this state",
    "DEFAULT": "the built-in one, because no active one took the entity",
    "NONE": "none of them has this state",
}


def _view_transition(told: ExplainedTransition) -> WayOut:
    reasons = tuple(_REASONS[each] for each in told.blocked_by if each in _REASONS)
    return WayOut(told=told, reasons=reasons, criterion=None if told.criterion is None else judge(told.criterion))


class _Judged(Record, frozen=True, kw_only=True):
    """A condition of a criterion as it is told. ``left_out`` counts parts of a group that are not listed."""

    type: str = ""
    operator: str = ""
    path: str = ""
    field: str = ""
    name: str = ""
    conditions: tuple[Members, ...] = ()
    left_out: int | bool = 0
    operand: Value | UnsetType = UNSET
    value: Value | UnsetType = UNSET
    values: tuple[Value, ...] | None = None
    absent: bool = False
    result: bool | None = None
    error: str | None = None


def judge(document: JsonObject, depth: int = 0) -> Judgement:
    """A criterion with what became of each of its leaves."""
    told = convert(document, _Judged)
    error = told.error or ""
    if told.type == "group" and depth < MAX_DEPTH:
        words = "all of" if told.operator.upper() == "AND" else "one of"
        parts = tuple(judge(each, depth + 1) for each in told.conditions)
        return Judgement(text=words, result=told.result, error=error, parts=parts, left_out=int(told.left_out))
    operand = "" if told.operand is UNSET else cut_json(told.operand, MAX_VALUE_CHARS)
    name = told.path or told.field or told.name or told.type
    text = " ".join(part for part in (name, told.operator, operand) if part)
    return Judgement(text=text, result=told.result, found=_show_found(told), error=error)


def _show_found(told: _Judged) -> str:
    if told.absent:
        return "nothing"
    if told.values is not None:
        return ", ".join(cut_json(each, MAX_VALUE_CHARS) for each in told.values) or "nothing"
    return "" if told.value is UNSET else cut_json(told.value, MAX_VALUE_CHARS)
