"""What `explain` says of an entity, for people: transitions with the reasons, criteria as trees
(docs/reference/operations.md#explain).
"""

from collections.abc import Mapping, Sequence
from typing import Final

from msgspec import Struct

from statewright.console.calls import get_flag, get_int, get_list, get_object, get_objects, get_text, get_texts
from statewright.jsonval.codec import encode
from statewright.jsonval.values import JsonObject, JsonValue

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


class ExplainedTransition(Struct, frozen=True, kw_only=True):
    """A way out of the state, and whether it can be taken now."""

    name: str
    target: str
    kind: str
    mark: str
    is_possible: bool
    """Whether it fires if it is asked for now, as far as can be said without asking a worker."""
    can_be_fired: bool
    """Whether a client can ask for it."""
    reasons: tuple[str, ...]
    criterion: Judgement | None
    missing: tuple[tuple[str, str], ...]
    """Processors without a worker, with their tags."""
    due_at: str
    attempts: int
    last_error: str


class Explanation(Struct, frozen=True, kw_only=True):
    """Why an entity is where it is."""

    mark: str
    verdict: str
    summary: str
    workflow: str
    revision: int
    rule: str
    passed_over: tuple[str, ...]
    since: str
    transitions: tuple[ExplainedTransition, ...]


def view_explanation(document: JsonObject) -> Explanation:
    """The explanation from its document."""
    workflow = get_object(document, "workflow")
    mark, verdict = VERDICTS.get(get_text(document, "verdict"), ("info", get_text(document, "verdict").lower()))
    return Explanation(
        mark=mark,
        verdict=verdict,
        summary=get_text(document, "summary"),
        workflow=get_text(workflow, "name"),
        revision=get_int(workflow, "revision"),
        rule=_RULES.get(get_text(workflow, "rule"), ""),
        passed_over=tuple(get_texts(workflow, "passedOver")),
        since=get_text(document, "since"),
        transitions=tuple(map(_view_transition, get_objects(document, "transitions"))),
    )


_RULES: Final[Mapping[str, str]] = {
    "REMEMBERED": "the one in which it was created",
    "FIRST_WITH_STATE": "the first active one that has this state",
    "DEFAULT": "the built-in one, because no active one took the entity",
    "NONE": "none of them has this state",
}


def _view_transition(document: JsonObject) -> ExplainedTransition:
    blocked = get_texts(document, "blockedBy")
    would_fire, kind = document.get("wouldFire"), _KINDS.get(get_text(document, "kind"), "automatic")
    timer = get_object(document, "timer")
    known = [_REASONS[each] for each in blocked if each in _REASONS]
    criterion = document.get("criterion")
    return ExplainedTransition(
        name=get_text(document, "name"),
        target=get_text(document, "next"),
        kind=kind,
        mark=_choose_mark(known, is_possible=would_fire is True),
        is_possible=would_fire is True,
        can_be_fired=kind != "scheduled" and would_fire is not False,
        reasons=tuple(words for _, words in known),
        criterion=judge(criterion) if isinstance(criterion, dict) else None,
        missing=tuple(
            (get_text(each, "name"), ", ".join(get_texts(each, "tags")) or "any")
            for each in get_objects(document, "processors")
            if each.get("members") == 0
        ),
        due_at=get_text(timer, "dueAt"),
        attempts=get_int(timer, "attempts"),
        last_error=get_text(timer, "lastError"),
    )


def _choose_mark(reasons: Sequence[tuple[str, str]], *, is_possible: bool) -> str:
    if is_possible:
        return "ok"
    marks = [mark for mark, _ in reasons]
    return next((mark for mark in ("bad", "warn", "wait", "off") if mark in marks), "off")


def judge(document: JsonObject, depth: int = 0) -> Judgement:
    """A criterion with what became of each of its leaves."""
    result = document.get("result")
    judged = result if isinstance(result, bool) else None
    error = get_text(document, "error")
    if get_text(document, "type") == "group" and depth < MAX_DEPTH:
        words = "all of" if get_text(document, "operator").upper() == "AND" else "one of"
        parts = tuple(judge(each, depth + 1) for each in get_objects(document, "conditions"))
        return Judgement(text=words, result=judged, error=error, parts=parts, left_out=_count_left_out(document))
    name = get_text(document, "path") or get_text(document, "field") or get_text(document, "name")
    operand = _show(document.get("operand")) if "operand" in document else ""
    text = " ".join(
        part for part in (name or get_text(document, "type"), get_text(document, "operator"), operand) if part
    )
    return Judgement(text=text, result=judged, found=_show_found(document), error=error)


def _count_left_out(document: JsonObject) -> int:
    value = document.get("leftOut")
    return value if isinstance(value, int) and not isinstance(value, bool) else int(value is True)


def _show_found(document: JsonObject) -> str:
    if get_flag(document, "absent"):
        return "nothing"
    if "values" in document:
        return ", ".join(_show(each) for each in get_list(document, "values")) or "nothing"
    return _show(document["value"]) if "value" in document else ""


def _show(value: JsonValue) -> str:
    text = encode(value).decode()
    return text if len(text) <= MAX_VALUE_CHARS else f"{text[:MAX_VALUE_CHARS]}…"
