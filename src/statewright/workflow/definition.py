"""Workflow definitions: what a client imported, beside what the engine needs of it.

Definitions are decoded once and cached, so whatever a run asks for again and again (the automated transitions of a
state, a transition by name, the tags of a processor) is worked out when the struct is made. Those fields are
*derived*: they follow from the others, whatever is passed for them. Members that only travel back to the client keep
the imported spelling.
"""

from collections.abc import Mapping
from typing import Literal

from msgspec import Struct
from msgspec.structs import force_setattr

from statewright.conditions.tags import required_tags
from statewright.jsonval.values import JsonValue
from statewright.workflow.contracts import Contract
from statewright.workflow.criterion import Criterion

ExecutionMode = Literal["SYNC", "ASYNC_SAME_TX", "ASYNC_NEW_TX", "COMMIT_BEFORE_DISPATCH"]
RetryPolicy = Literal["NONE", "FIXED"]

DEFAULT_REPLY_TIMEOUT_MS = 30_000
"""How long a member may take when the definition gives no positive ``responseTimeoutMs`` (spec/workflows.md §2.5)."""

_MODES: Mapping[str, ExecutionMode] = {
    "SYNC": "SYNC",
    "ASYNC_SAME_TX": "ASYNC_SAME_TX",
    "ASYNC_NEW_TX": "ASYNC_NEW_TX",
    "COMMIT_BEFORE_DISPATCH": "COMMIT_BEFORE_DISPATCH",
}

EXECUTION_MODES = tuple(_MODES)
"""What ``executionMode`` may say, in the order in which messages list it."""


class ProcessorConfig(Struct, frozen=True, kw_only=True):
    """How a processor is called (spec/workflows.md §2.5).

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
        force_setattr(self, "tags", required_tags(self.calculation_nodes_tags))

    @property
    def timeout_ms(self) -> int:
        """The reply deadline that applies."""
        return _reply_deadline(self.response_timeout_ms)

    @property
    def retry(self) -> RetryPolicy:
        """The policy that applies: one attempt unless ``FIXED`` is asked for by name (decision W7)."""
        return "FIXED" if self.retry_policy == "FIXED" else "NONE"


class Processor(Struct, frozen=True, kw_only=True):
    """A callout made while a transition fires (spec/workflows.md §2.4).

    ``execution_mode`` is the declared text, maybe empty. ``start_new_tx_beside`` is ``startNewTxOnDispatch`` given
    next to it, where seed 001 has it, rather than in ``config`` (decision W6); ``None`` when not given there.
    """

    type: str = ""
    name: str
    execution_mode: str = ""
    start_new_tx_beside: bool | None = None
    config: ProcessorConfig = ProcessorConfig()
    annotations: JsonValue = None

    @property
    def mode(self) -> ExecutionMode:
        """The mode that applies: ``SYNC`` when none, or in the seed contract an unknown one, is declared."""
        return _MODES.get(self.execution_mode, "SYNC")

    @property
    def starts_new_tx(self) -> bool:
        """Whether callbacks of this ``COMMIT_BEFORE_DISPATCH`` processor join a transaction (§10.5)."""
        return self.config.start_new_tx is True or self.start_new_tx_beside is True


class ScheduleFunction(Struct, frozen=True, kw_only=True):
    """A callout that decides when a scheduled transition fires (spec/workflows.md §2.6). ``tags`` is derived."""

    name: str
    result_kind: str
    calculation_nodes_tags: str
    attach_entity: bool = True
    context: str = ""
    response_timeout_ms: int = 0
    tags: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        force_setattr(self, "tags", required_tags(self.calculation_nodes_tags))

    @property
    def timeout_ms(self) -> int:
        """The reply deadline that applies."""
        return _reply_deadline(self.response_timeout_ms)


class Schedule(Struct, frozen=True, kw_only=True):
    """When a scheduled transition fires: ``delay_ms`` after arming, or when ``function`` says (spec/workflows.md §2.6).

    ``delay_ms`` is 0 with a function. ``timeout_ms`` is the tolerated lateness; ``None`` = never expires.
    """

    delay_ms: int = 0
    timeout_ms: int | None = None
    function: ScheduleFunction | None = None


class Transition(Struct, frozen=True, kw_only=True):
    """A way out of a state (spec/workflows.md §2.3).

    ``null_criterion`` tells an explicit ``"criterion": null`` from an absent one; both mean that nothing guards.
    ``annotations`` and ``criterion_annotations``: ``None`` when there are none.
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

    @property
    def is_automated(self) -> bool:
        """Whether the cascade considers it (spec/workflows.md §8.5)."""
        return not (self.manual or self.disabled or self.schedule is not None)


class State(Struct, frozen=True, kw_only=True):
    """A state and its transitions in declaration order (spec/workflows.md §2.2).

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
    """A finite state machine of a model (spec/workflows.md §2.1).

    ``version`` is kept as imported. ``states`` is in the order of the names. ``has_schedules`` is derived: whether any
    transition is scheduled, disabled ones included (§13.2).
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

    def __post_init__(self) -> None:
        transitions = (transition for state in self.states.values() for transition in state.transitions)
        force_setattr(self, "has_schedules", any(t.schedule is not None for t in transitions))

    def transitions_of(self, state: str) -> tuple[Transition, ...]:
        """All transitions of ``state`` in declaration order; none when the workflow lacks the state."""
        found = self.states.get(state)
        return found.transitions if found is not None else ()

    def automated_of(self, state: str) -> tuple[Transition, ...]:
        """What the cascade considers in ``state``, in order."""
        found = self.states.get(state)
        return found.automated if found is not None else ()

    def scheduled_of(self, state: str) -> tuple[Transition, ...]:
        """What arms a timer when an entity settles in ``state``, in order; nothing disabled (§13.2)."""
        found = self.states.get(state)
        return found.scheduled if found is not None else ()

    def transition_named(self, state: str, name: str) -> Transition | None:
        """The transition of that name in ``state``, whatever its kind."""
        found = self.states.get(state)
        return found.by_name.get(name) if found is not None else None


def _reply_deadline(configured_ms: int) -> int:
    return configured_ms if configured_ms > 0 else DEFAULT_REPLY_TIMEOUT_MS
