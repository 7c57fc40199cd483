"""Policies: of admission, and of tasks.

``set_ctx``, ``set_iter`` and ``set``: what is written, and where.

What a task comes to (docs/reference/playbooks.md#outcomes).
"""

from collections.abc import Mapping
from typing import Final, Literal, get_args

from msgspec import Struct

from statewright.jsonval.values import JsonObject, JsonValue, is_number
from statewright.playbooks.definition import (
    DEFAULT_ATTEMPTS,
    AdmissionRule,
    Assignment,
    Backoff,
    Do,
    OnDeny,
    OnUnmatched,
    StepAdmission,
    TaskAction,
    TaskPolicy,
    TaskRule,
)
from statewright.playbooks.place import Place
from statewright.playbooks.templates import Condition, Template

_READ_ONLY: Final = frozenset(
    ("args", "event", "execution_id", "input", "keychain", "outcome", "output", "results", "workload")
)


def read_assignments(place: Place, scope: Literal["ctx", "iter"]) -> tuple[Assignment, ...]:
    """A mapping of keys to values for one scope (``set_ctx``, ``set_iter``)."""
    members = (place.get(key) for key in place.read_mapping())
    return tuple(found for member in members if (found := _read(member, scope, _get_key(member))) is not None)


def read_scoped_assignments(place: Place, *, allows_iter: bool) -> tuple[Assignment, ...]:
    """A mapping of keys with their scopes (``set``): ``ctx.a``, ``iter.a``; without a scope it is ``ctx``."""
    found: list[Assignment] = []
    for key in place.read_mapping():
        member = place.get(key)
        scope, _, rest = key.partition(".")
        if rest and scope in _READ_ONLY:
            member.refuse(f"cannot be set: {scope} does not change; expected a key of ctx or iter")
        elif rest and scope == "iter" and not allows_iter:
            member.refuse("cannot be set here: iter lives within a pipeline; expected a key of ctx")
        else:
            scoped: Literal["ctx", "iter"] = "iter" if rest and scope == "iter" else "ctx"
            assignment = _read(member, scoped, rest if rest and scope in ("ctx", "iter", "step") else key)
            if assignment is not None:
                found.append(assignment)
    return tuple(found)


def _get_key(member: Place) -> str:
    return member.path.rpartition("/")[2].replace("~1", "/").replace("~0", "~")


def _read(member: Place, scope: Literal["ctx", "iter"], key: str) -> Assignment | None:
    path = tuple(key.split("."))
    if not all(path):
        member.refuse("has a key with an empty part; expected names with dots between them")
        return None
    return Assignment(scope=scope, path=path, value=member.read_template())


MAX_ATTEMPTS: Final = 10_000
MAX_RULES: Final = 100
PREVIOUS: Final = "previous"
"""A target of jumps: the task before."""

_NEWER_NAMES: Final[Mapping[str, str]] = {"retry": "is not known here; expected then: {do: retry, …}"}


class _Rules:
    """The rules of a policy: their conditions and what follows them, and what follows ``else``."""

    def __init__(self, place: Place) -> None:
        self.rules: list[tuple[Condition | None, Place]] = []
        self.otherwise: Place | None = None
        items = list(place.list_items("a list of rules"))
        if place.is_absent:
            place.refuse("is missing; expected a list of rules")
        if len(items) > MAX_RULES:
            place.refuse(f"has {len(items)} rules; at most {MAX_RULES} are allowed")
        for index, item in enumerate(items[:MAX_RULES]):
            self._read_rule(item, is_last=index == len(items) - 1)

    def _read_rule(self, item: Place, *, is_last: bool) -> None:
        if not isinstance(item.value, dict):
            item.expect("a mapping with when and then, or with else")
        elif item.has("else"):
            if not is_last:
                item.get("else").refuse("must be the last of the rules")
            item.refuse_unknown(("else",))
            branch = item.get("else")
            branch.refuse_unknown(("then",))
            self.otherwise = _require_then(branch)
        else:
            item.refuse_unknown(("when", "then"), _NEWER_NAMES)
            self.rules.append((item.get("when").read_condition(), _require_then(item)))


def _require_then(place: Place) -> Place:
    then = place.get("then")
    if not isinstance(place.value, dict):
        place.expect("a mapping with then")
    elif then.is_absent:
        then.refuse("is missing; expected a mapping that says what follows")
    else:
        then.read_mapping()
    return then


def read_admission(place: Place) -> StepAdmission | None:
    """``spec.policy.admit`` of a step."""
    if place.is_absent:
        return None
    place.refuse_unknown(("mode", "on_deny", "rules"))
    on_deny: OnDeny = place.get("on_deny").read_choice(OnDeny, "pending")
    if place.get("rules").is_absent and not place.has("rules"):
        place.get("rules").refuse("is missing; expected a list of rules")
        return None
    if place.get("rules").value in (None, []):
        return None
    read = _Rules(place.get("rules"))
    rules = tuple(AdmissionRule(when=when, allow=_read_allow(then)) for when, then in read.rules)
    otherwise = None if read.otherwise is None else _read_allow(read.otherwise)
    if otherwise is None and all(rule.when is not None for rule in rules):
        place.get("rules").warn("has no else: a token that no rule fits is denied")
    return StepAdmission(rules=rules, otherwise=otherwise, on_deny=on_deny)


def _read_allow(then: Place) -> bool:
    if not isinstance(then.value, dict):
        return False
    then.refuse_unknown(("allow",))
    allow = then.get("allow")
    if allow.is_absent:
        allow.refuse("is missing; expected true or false")
    return allow.read_boolean()


def read_task_policy(place: Place, labels: tuple[str, ...], index: int) -> TaskPolicy | None:
    """``spec.policy`` of a task; ``labels``: those of its pipeline, in which it is the one at ``index``."""
    if place.is_absent:
        return None
    if not isinstance(place.value, dict):
        place.expect("a mapping with rules")
        return None
    place.refuse_unknown(("mode", "on_unmatched", "rules"))
    read = _Rules(place.get("rules"))
    rules = tuple(
        TaskRule(when=when, then=action)
        for when, then in read.rules
        if (action := _read_action(then, labels, index)) is not None
    )
    return TaskPolicy(
        rules=rules,
        otherwise=None if read.otherwise is None else _read_action(read.otherwise, labels, index),
        on_unmatched=place.get("on_unmatched").read_choice(OnUnmatched, "fail"),
    )


def _read_action(then: Place, labels: tuple[str, ...], index: int) -> TaskAction | None:
    if not isinstance(then.value, dict):
        return None
    then.refuse_unknown(("attempts", "backoff", "delay", "do", "set", "set_ctx", "set_iter", "to"))
    do = then.get("do")
    if do.is_absent:
        do.refuse(f"is missing; expected one of {', '.join(get_args(Do))}")
    delay = then.get("delay")
    both = (
        *read_assignments(then.get("set_iter"), "iter"),
        *read_assignments(then.get("set_ctx"), "ctx"),
        *read_scoped_assignments(then.get("set"), allows_iter=True),
    )
    return TaskAction(
        do=do.read_choice(Do, "continue"),
        attempts=then.get("attempts").read_whole(1, MAX_ATTEMPTS, DEFAULT_ATTEMPTS),
        backoff=then.get("backoff").read_choice(Backoff, "none"),
        delay=None if delay.is_absent else _read_delay(delay),
        to=_read_target(then, labels, index),
        set=tuple(sorted(both, key=lambda assignment: assignment.scope != "iter")),
    )


def _read_delay(place: Place) -> Template | None:
    """Seconds, or a template of them."""
    value = place.value
    if isinstance(value, str):
        if "{{" not in value:
            place.expect("a number of seconds, or a template of one")
            return None
        return place.read_template()
    if not is_number(value) or value < 0:
        place.expect("a number of seconds, or a template of one")
        return None
    return place.read_template()


def _read_target(then: Place, labels: tuple[str, ...], index: int) -> str | None:
    """The label that a jump goes to."""
    to = then.get("to")
    if then.get("do").value != "jump":
        if not to.is_absent:
            to.warn("has no effect without do: jump")
        return None
    if to.value in labels:
        return str(to.value)
    if to.value == PREVIOUS and index > 0:
        return labels[index - 1]
    if to.is_absent:
        to.refuse("is missing; expected the label of a task of this step")
    elif to.value == PREVIOUS:
        to.refuse("has no task before this one")
    else:
        to.expect(f"the label of a task of this step ({', '.join(labels)[:200]}) or {PREVIOUS}")
    return None


MAX_MESSAGE_CHARS: Final = 10_000


class Outcome(Struct, frozen=True, kw_only=True):
    """The end of one execution of a task."""

    status: Literal["ok", "error"]
    result: JsonValue = None
    error: "JsonObject | None" = None
    """Of an error: ``kind`` always; ``code``, ``message``, ``retryable`` and ``status`` where they are known."""
    http: "JsonObject | None" = None
    """Of HTTP tasks: ``status`` and ``headers`` of the response."""
    meta: JsonObject = {}
    """``attempt``, ``duration_ms`` and ``ts``, as far as whoever ran it has measured."""

    @property
    def is_ok(self) -> bool:
        """Whether it has a result."""
        return self.status == "ok"

    def to_document(self) -> JsonObject:
        """As templates see it (``outcome``, ``output``), with both names of the result."""
        document: JsonObject = {"status": self.status, "result": self.result, "data": self.result, "meta": self.meta}
        if self.error is not None:
            document["error"] = self.error
        if self.http is not None:
            document["http"] = self.http
        return document


def succeed(result: JsonValue = None, *, http: "JsonObject | None" = None) -> Outcome:
    """An outcome with a result."""
    return Outcome(status="ok", result=result, http=http)


def fail(
    kind: str,
    message: str,
    *,
    code: str | None = None,
    retryable: bool | None = None,
    status: int | None = None,
    result: JsonValue = None,
    http: "JsonObject | None" = None,
) -> Outcome:
    """An outcome with an error. ``result``: what there is of a result nonetheless, as the body of an HTTP error."""
    error: JsonObject = {"kind": kind, "message": message[:MAX_MESSAGE_CHARS]}
    known: JsonObject = {"code": code, "retryable": retryable, "status": status}
    error |= {name: value for name, value in known.items() if value is not None}
    return Outcome(status="error", result=result, error=error, http=http)
