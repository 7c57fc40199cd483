"""Workflow definitions: what a client imported, together with what the engine derives from it.

Definitions are decoded once and cached, so what every run needs (the automated transitions of a state, a transition by
name, the tags of a processor) is worked out when the struct is made. Those fields are
*derived*: they follow from the others, whatever is passed for them. Members that only travel back to the client keep
the imported spelling.

To add an execution mode, name it here and carry it out in ``engine/processors.py``.

*Contracts.* A workflow's ``version`` names the import contract that it is read under. A version of the form MAJOR.MINOR
between 1.1 and the newest one known stands for the strict contract of docs/reference/workflows.md#workflows: unknown
members are refused, ``active`` is honoured, modes and policies are checked. Everything else that is not newer (absent,
``1``, ``1.0``, ``draft``) stands for the contract of the first release, where the version is a free text that is kept
as it is, unknown members are ignored and an imported workflow becomes active. Newer versions are unknown and refused
(decision W1).
"""

import re
from collections.abc import Collection, Mapping
from enum import StrEnum
from typing import Final, Literal

from msgspec import Struct
from msgspec.structs import force_setattr

from statewright.conditions import Condition, MalformedCondition, parse
from statewright.conditions.wire import parse_tags
from statewright.jsonval.values import JsonObject, JsonValue
from statewright.workflow.retries import NOTHING_DONE, PERHAPS_DONE, RetryRule, read_retry

_MAJOR: Final = 1
_MIN_MINOR: Final = 1
_MAX_MINOR: Final = 3

CURRENT_VERSION: Final = f"{_MAJOR}.{_MAX_MINOR}"
"""The version that exports of strict workflows carry, whatever was imported (docs/reference/workflows.md#version)."""

_MAJOR_MINOR: Final = re.compile(r"(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)")


class Contract(StrEnum):
    """The rules under which a workflow was imported. The values are stored with it."""

    SEED = "SEED"
    STRICT = "STRICT"


def choose_contract(version: str) -> Contract:
    """The contract that ``version`` names, which must not be one that :func:`explain_newer_version` objects to."""
    parts = _MAJOR_MINOR.fullmatch(version)
    if parts is None or parts[1] != str(_MAJOR):
        return Contract.SEED
    return Contract.STRICT if parts[2] in _MINORS else Contract.SEED


def explain_newer_version(version: str) -> str | None:
    """Why ``version`` cannot be imported here; ``None`` when it can (docs/reference/workflows.md#version)."""
    parts = _MAJOR_MINOR.fullmatch(version)
    if parts is None:
        return None
    major, minor = parts[1], parts[2]
    if _exceeds(major, _MAJOR):
        return (
            "workflow schema major version unsupported: "
            f"workflow schema major version {major} unsupported on this server; supported majors: [{_MAJOR}]"
        )
    if major == str(_MAJOR) and _exceeds(minor, _MAX_MINOR):
        return (
            "workflow schema minor version too new: "
            f"this server supports workflow schema up to {CURRENT_VERSION}; payload declares {version}. "
            "Upgrade the server, or export the workflow for an older schema"
        )
    return None


def describe_versions() -> JsonObject:
    """The document of ``GET /help/workflows/schema-version/versions`` (docs/reference/workflows.md#version)."""
    return {
        "current": CURRENT_VERSION,
        "supported": [{"major": _MAJOR, "minMinor": _MIN_MINOR, "maxMinor": _MAX_MINOR}],
    }


_MINORS: Final = frozenset(str(minor) for minor in range(_MIN_MINOR, _MAX_MINOR + 1))


def _exceeds(digits: str, limit: int) -> bool:
    # Compared as text: a version is client input, and a number of thousands of digits costs quadratic time to convert.
    return (len(digits), digits) > (len(str(limit)), str(limit))


class Criterion(Struct, frozen=True, kw_only=True):
    """A condition that selects a workflow or guards a transition.

    ``source`` is the JSON as imported; it is returned and sent to members verbatim, and must not be changed.
    ``condition`` is ``None`` when the source is no condition at all; ``defect`` says why then. Such a criterion is
    accepted at import and fails when it is evaluated (docs/reference/workflows.md#checks-of-criteria).
    ``label`` is what audit events call it: the name of an external criterion, else the condition type
    (docs/reference/workflows.md#events).
    """

    source: JsonValue
    condition: Condition | None
    defect: str
    label: str


def parse_criterion(source: JsonValue) -> Criterion:
    """The criterion that ``source`` describes; never fails."""
    try:
        condition = parse(source)
    except MalformedCondition as malformed:
        return Criterion(source=source, condition=None, defect=str(malformed), label=_read_label(source))
    return Criterion(source=source, condition=condition, defect="", label=_read_label(source))


def _read_label(source: JsonValue) -> str:
    if not isinstance(source, dict):
        return ""
    kind = source.get("type")
    function = source.get("function")
    if kind == "function" and isinstance(function, dict) and isinstance(name := function.get("name"), str):
        return name
    return kind if isinstance(kind, str) else ""


ExecutionMode = Literal["SYNC", "ASYNC_SAME_TX", "ASYNC_NEW_TX", "COMMIT_BEFORE_DISPATCH"]
RetryPolicy = Literal["NONE", "FIXED"]

DEFAULT_REPLY_TIMEOUT_MS: Final = 30_000
"""How long a member may take when the definition gives no positive ``responseTimeoutMs``
(docs/reference/workflows.md#processor-config).
"""

_MODES: Mapping[str, ExecutionMode] = {
    "SYNC": "SYNC",
    "ASYNC_SAME_TX": "ASYNC_SAME_TX",
    "ASYNC_NEW_TX": "ASYNC_NEW_TX",
    "COMMIT_BEFORE_DISPATCH": "COMMIT_BEFORE_DISPATCH",
}

EXECUTION_MODES: Final = tuple(_MODES)
"""What ``executionMode`` may say, in the order in which messages list it."""


class ProcessorConfig(Struct, frozen=True, kw_only=True):
    """How a processor is called (docs/reference/workflows.md#processor-config).

    ``start_new_tx`` and ``async_result``: ``None`` when not given. ``crossover_to_async_ms`` is read to be refused.
    ``tags`` is derived from ``calculation_nodes_tags``.
    """

    attach_entity: bool = True
    calculation_nodes_tags: str = ""
    response_timeout_ms: int = 0
    retry_policy: str = ""
    context: str = ""
    start_new_tx: bool | None = None
    async_result: bool | None = None
    crossover_to_async_ms: int | None = None
    tags: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        force_setattr(self, "tags", parse_tags(self.calculation_nodes_tags))

    @property
    def timeout_ms(self) -> int:
        """The reply deadline that applies."""
        return _choose_timeout_ms(self.response_timeout_ms)

    @property
    def retry(self) -> RetryPolicy:
        """The policy that applies: one attempt unless ``FIXED`` is asked for by name (decision W7)."""
        return "FIXED" if self.retry_policy == "FIXED" else "NONE"


class Processor(Struct, frozen=True, kw_only=True):
    """A callout made while a transition fires (docs/reference/workflows.md#processor).

    ``execution_mode`` is the declared text, maybe empty. ``start_new_tx_beside`` is ``startNewTxOnDispatch`` given
    next to it, where older documents have it, rather than in ``config`` (decision W6); ``None`` when not given there.
    ``retry`` is derived from the annotations.
    """

    type: str = ""
    name: str
    execution_mode: str = ""
    start_new_tx_beside: bool | None = None
    config: ProcessorConfig = ProcessorConfig()
    annotations: JsonValue = None
    retry: RetryRule | None = None

    def __post_init__(self) -> None:
        if self.annotations is not None:
            causes = NOTHING_DONE | PERHAPS_DONE if self.mode == "COMMIT_BEFORE_DISPATCH" else NOTHING_DONE
            force_setattr(self, "retry", read_retry(self.annotations, causes=causes))

    @property
    def mode(self) -> ExecutionMode:
        """The mode that applies: ``SYNC`` when none, or in the seed contract an unknown one, is declared."""
        return _MODES.get(self.execution_mode, "SYNC")

    @property
    def starts_new_tx(self) -> bool:
        """Whether callbacks of this ``COMMIT_BEFORE_DISPATCH`` processor join a transaction
        (docs/reference/workflows.md#commit_before_dispatch).
        """
        return self.config.start_new_tx is True or self.start_new_tx_beside is True


class ScheduleFunction(Struct, frozen=True, kw_only=True):
    """A callout that decides when a scheduled transition fires (docs/reference/workflows.md#schedule). ``tags`` is
    derived.
    """

    name: str
    result_kind: str
    calculation_nodes_tags: str
    attach_entity: bool = True
    context: str = ""
    response_timeout_ms: int = 0
    tags: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        force_setattr(self, "tags", parse_tags(self.calculation_nodes_tags))

    @property
    def timeout_ms(self) -> int:
        """The reply deadline that applies."""
        return _choose_timeout_ms(self.response_timeout_ms)


class Schedule(Struct, frozen=True, kw_only=True):
    """When a scheduled transition fires: ``delay_ms`` after arming, or when ``function`` says
    (docs/reference/workflows.md#schedule).

    ``delay_ms`` is 0 with a function. ``timeout_ms`` is the tolerated lateness; ``None`` = never expires.
    """

    delay_ms: int = 0
    timeout_ms: int | None = None
    function: ScheduleFunction | None = None


class Transition(Struct, frozen=True, kw_only=True):
    """A way out of a state (docs/reference/workflows.md#transition).

    ``null_criterion`` tells an explicit ``"criterion": null`` from an absent one; both mean that there is no guard.
    ``annotations`` and ``criterion_annotations``: ``None`` when there are none. ``criterion_retry`` is derived.
    """

    name: str
    next: str
    manual: bool = False
    disabled: bool = False
    criterion: Criterion | None = None
    null_criterion: bool = False
    processors: tuple[Processor, ...] = ()
    schedule: Schedule | None = None
    annotations: JsonValue = None
    criterion_annotations: JsonValue = None
    criterion_retry: RetryRule | None = None

    def __post_init__(self) -> None:
        force_setattr(self, "criterion_retry", read_retry(self.criterion_annotations))

    @property
    def commits_segment(self) -> bool:
        """Whether one of its processors is ``COMMIT_BEFORE_DISPATCH``."""
        return any(processor.mode == "COMMIT_BEFORE_DISPATCH" for processor in self.processors)

    @property
    def is_automated(self) -> bool:
        """Whether the cascade considers it (docs/reference/workflows.md#the-cascade)."""
        return not (self.manual or self.disabled or self.schedule is not None)


class State(Struct, frozen=True, kw_only=True):
    """A state and its transitions in declaration order (docs/reference/workflows.md#state).

    Derived: ``automated``, what the cascade considers; ``scheduled``, what arms a timer; ``by_name``.
    """

    name: str
    transitions: tuple[Transition, ...] = ()
    annotations: JsonValue = None
    automated: tuple[Transition, ...] = ()
    scheduled: tuple[Transition, ...] = ()
    by_name: Mapping[str, Transition] = {}

    def __post_init__(self) -> None:
        force_setattr(self, "automated", tuple(t for t in self.transitions if t.is_automated))
        armed = (t for t in self.transitions if t.schedule is not None and not t.disabled)
        force_setattr(self, "scheduled", tuple(armed))
        force_setattr(self, "by_name", {t.name: t for t in self.transitions})


class Workflow(Struct, frozen=True, kw_only=True):
    """A finite state machine of a model (docs/reference/workflows.md#workflow).

    ``version`` is kept as imported. ``states`` is in the order of the names. ``has_schedules`` is derived: whether any
    transition is scheduled, disabled ones included (docs/reference/workflows.md#arming). So is ``segmenting_states``:
    where a cascade may come to a ``COMMIT_BEFORE_DISPATCH`` processor, and ``criterion_retry``.
    """

    version: str
    contract: Contract
    name: str
    desc: str = ""
    initial_state: str
    active: bool = True
    criterion: Criterion | None = None
    null_criterion: bool = False
    criterion_annotations: JsonValue = None
    annotations: JsonValue = None
    states: Mapping[str, State]
    has_schedules: bool = False
    segmenting_states: frozenset[str] = frozenset()
    criterion_retry: RetryRule | None = None

    def __post_init__(self) -> None:
        force_setattr(self, "criterion_retry", read_retry(self.criterion_annotations))
        transitions = (transition for state in self.states.values() for transition in state.transitions)
        force_setattr(self, "has_schedules", any(t.schedule is not None for t in transitions))
        force_setattr(self, "segmenting_states", _find_segmenting_states(self.states.values()))

    def may_segment(self, transition: Transition) -> bool:
        """Whether a run that fires ``transition`` may come to a ``COMMIT_BEFORE_DISPATCH`` processor, there or in the
        cascade that follows.
        """
        return transition.commits_segment or transition.next in self.segmenting_states

    def list_transitions(self, state: str) -> tuple[Transition, ...]:
        """All transitions of ``state`` in declaration order; none when the workflow lacks the state."""
        found = self.states.get(state)
        return found.transitions if found is not None else ()

    def list_automated(self, state: str) -> tuple[Transition, ...]:
        """What the cascade considers in ``state``, in order."""
        found = self.states.get(state)
        return found.automated if found is not None else ()

    def list_scheduled(self, state: str) -> tuple[Transition, ...]:
        """What arms a timer when an entity settles in ``state``, in order; nothing disabled
        (docs/reference/workflows.md#arming).
        """
        found = self.states.get(state)
        return found.scheduled if found is not None else ()

    def find_transition(self, state: str, name: str) -> Transition | None:
        """The transition of that name in ``state``, whatever its kind."""
        found = self.states.get(state)
        return found.by_name.get(name) if found is not None else None


def _find_segmenting_states(states: Collection[State]) -> frozenset[str]:
    """States from which automated transitions lead to one that commits a segment; manual ones end a cascade."""
    sources: dict[str, list[str]] = {}  # of the automated transitions into a state
    reached: list[str] = []
    for state in states:
        for transition in state.automated:
            sources.setdefault(transition.next, []).append(state.name)
        if any(transition.commits_segment for transition in state.automated):
            reached.append(state.name)
    found: set[str] = set()
    while reached:
        name = reached.pop()
        if name not in found:
            found.add(name)
            reached += sources.get(name, ())
    return frozenset(found)


def _choose_timeout_ms(configured_ms: int) -> int:
    return configured_ms if configured_ms > 0 else DEFAULT_REPLY_TIMEOUT_MS
