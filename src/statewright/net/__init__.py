"""The token kernel that the process languages share: nodes, tokens, events in, effects out.

A process language compiles its definitions into a :class:`Net` and brings a :class:`Language`: how data reaches an
activity, what a result changes, when a guard holds. The kernel moves the tokens. Everything here is a function over
values, without I/O, clock or waiting; :func:`start` and :func:`advance` are its two entries
(docs/reference/kernel.md#a-function).
"""

from statewright.net.advance import INTERRUPTED, KernelResult, advance, is_waiting, start
from statewright.net.durations import Delay, add_delay, parse_delay
from statewright.net.identifiers import (
    IDS_PER_MOMENT,
    ActivationId,
    ExecutionId,
    Moment,
    NodeId,
    TimerId,
    WorkId,
    format_ulid,
    parse_ulid,
    ulid_to_uuid,
    uuid_to_ulid,
)
from statewright.net.language import Completed, Language, Problem
from statewright.net.marking import (
    Activation,
    Branch,
    HeldResult,
    Marking,
    Move,
    PendingTimer,
    Phase,
    Stage,
    Token,
    marking_from_document,
    marking_to_document,
)
from statewright.net.nodes import (
    AllInputs,
    AnyInput,
    Arc,
    BoundaryTimer,
    BranchJoin,
    HumanTask,
    Net,
    NoActivity,
    Node,
    Routing,
    SubNet,
    Task,
    Wait,
)

__all__ = [
    "IDS_PER_MOMENT",
    "INTERRUPTED",
    "Activation",
    "ActivationId",
    "AllInputs",
    "AnyInput",
    "Arc",
    "BoundaryTimer",
    "Branch",
    "BranchJoin",
    "Completed",
    "Delay",
    "ExecutionId",
    "HeldResult",
    "HumanTask",
    "KernelResult",
    "Language",
    "Marking",
    "Moment",
    "Move",
    "Net",
    "NoActivity",
    "Node",
    "NodeId",
    "PendingTimer",
    "Phase",
    "Problem",
    "Routing",
    "Stage",
    "SubNet",
    "Task",
    "TimerId",
    "Token",
    "Wait",
    "WorkId",
    "add_delay",
    "advance",
    "format_ulid",
    "is_waiting",
    "marking_from_document",
    "marking_to_document",
    "parse_delay",
    "parse_ulid",
    "start",
    "ulid_to_uuid",
    "uuid_to_ulid",
]
