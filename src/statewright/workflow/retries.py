"""When a failed callout is tried again: the object ``retry`` below ``annotations.statewright``
(docs/reference/workflows.md#retries).
"""

from collections.abc import Callable, Mapping
from typing import Final, Literal, TypeAlias, get_args

from msgspec import Struct

from statewright.jsonval.values import JsonValue, is_number, is_whole, quote_name
from statewright.net.durations import parse_delay

RetryCause: TypeAlias = Literal["NO_MEMBER", "NOT_SENT", "DISCONNECTED", "TIMEOUT", "ERROR"]
"""Why an attempt failed: no member to ask; lost before the request was written; lost afterwards; no answer in time; the
member answered that it has failed.
"""

RETRY_CAUSES: Final[tuple[RetryCause, ...]] = get_args(RetryCause)

NOTHING_DONE: Final[frozenset[RetryCause]] = frozenset(("NO_MEMBER", "NOT_SENT"))
"""After these no member has seen the request."""

PERHAPS_DONE: Final[frozenset[RetryCause]] = frozenset(("DISCONNECTED", "TIMEOUT"))
"""After these a member may have done what it was asked for."""

MAX_PAUSE_S: Final = 600.0


class RetryRule(Struct, frozen=True, kw_only=True):
    """How often a callout is tried, and when again. ``attempts`` has the first in it; ``total_s`` bounds all attempts
    and pauses together, None: nothing does. With ``failover`` members that were tried are avoided.
    """

    attempts: int = 3
    delay_s: float = 0.5
    max_delay_s: float = 30.0
    factor: float = 2.0
    jitter: float = 0.2
    total_s: float | None = 60.0
    failover: bool = True
    causes: frozenset[RetryCause] = NOTHING_DONE

    @property
    def repeats_work(self) -> bool:
        """Whether an attempt may follow one that has reached a member, so that what callbacks wrote has to go."""
        return not self.causes <= NOTHING_DONE

    def compute_pause_s(self, attempt: int, chance: float) -> float:
        """Seconds between an attempt, the first being 1, and the next; ``chance`` from 0 to 1 decides the jitter."""
        pause_s = min(self.max_delay_s, self.delay_s * self.factor ** (attempt - 1))
        return pause_s * (1 + self.jitter * (2 * chance - 1))


class MalformedRetry(Exception):
    """What is wrong with a rule; ``member`` is empty when it is the rule itself."""

    def __init__(self, member: str, reason: str) -> None:
        self.member = member
        super().__init__(reason)


def parse_retry(source: JsonValue, *, causes: frozenset[RetryCause] = NOTHING_DONE) -> RetryRule:
    """The rule that ``source`` describes; without ``on`` it is for these ``causes``. Raises ``MalformedRetry``."""
    if not isinstance(source, dict):
        raise MalformedRetry("", "must be an object")
    members: dict[str, object] = {"causes": causes}
    for name, value in source.items():
        if name not in _MEMBERS:
            raise MalformedRetry(name, f"is unknown; known: {', '.join(_MEMBERS)}")
        field, read = _MEMBERS[name]
        members[field] = read(name, value)
    return RetryRule(**members)  # type: ignore[arg-type]  # each was made by the reader of its field


def read_retry(annotations: JsonValue, *, causes: frozenset[RetryCause] = NOTHING_DONE) -> RetryRule | None:
    """The rule in the annotations of a processor or criterion; None without one. One that does not fit was stored
    before there were rules, and has no effect.
    """
    own = annotations.get("statewright") if isinstance(annotations, dict) else None
    if not isinstance(own, dict) or "retry" not in own:
        return None
    try:
        return parse_retry(own["retry"], causes=causes)
    except MalformedRetry:
        return None


def _read_number(name: str, value: JsonValue, least: float, most: float) -> float:
    if not is_number(value) or not least <= value <= most:
        raise MalformedRetry(name, f"must be a number from {least:g} to {most:g}")
    return float(value)


def _read_attempts(name: str, value: JsonValue) -> int:
    if not is_whole(value) or not 1 <= value <= 20:
        raise MalformedRetry(name, "must be an integer from 1 to 20")
    return value


def _read_seconds(name: str, value: JsonValue, least_s: float) -> float:
    delay = parse_delay(value) if isinstance(value, str) else None
    if delay is None or delay.months or not least_s <= delay.microseconds / 1_000_000 <= MAX_PAUSE_S:
        text = f"must be an ISO 8601 duration from PT{least_s:g}S to PT10M, such as PT0.5S"
        raise MalformedRetry(name, text)
    return delay.microseconds / 1_000_000


def _read_flag(name: str, value: JsonValue) -> bool:
    if not isinstance(value, bool):
        raise MalformedRetry(name, "must be true or false")
    return value


def _read_causes(name: str, value: JsonValue) -> frozenset[RetryCause]:
    if not isinstance(value, list):
        raise MalformedRetry(name, "must be an array")
    for cause in value:
        if cause not in RETRY_CAUSES:
            told = quote_name(cause) if isinstance(cause, str) else "something else"
            raise MalformedRetry(name, f"has {told}; known: {', '.join(RETRY_CAUSES)}")
    return frozenset(cause for cause in RETRY_CAUSES if cause in value)


_MEMBERS: Final[Mapping[str, tuple[str, Callable[[str, JsonValue], object]]]] = {
    "attempts": ("attempts", _read_attempts),
    "delay": ("delay_s", lambda name, value: _read_seconds(name, value, 0)),
    "factor": ("factor", lambda name, value: _read_number(name, value, 1, 10)),
    "maxDelay": ("max_delay_s", lambda name, value: _read_seconds(name, value, 0)),
    "jitter": ("jitter", lambda name, value: _read_number(name, value, 0, 1)),
    "totalTime": ("total_s", lambda name, value: _read_seconds(name, value, 1)),
    "failover": ("failover", _read_flag),
    "on": ("causes", _read_causes),
}
"""By the name of the member: the field of the rule, and how its value is read."""
