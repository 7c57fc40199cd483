"""The token kernel that the process languages share: places, tokens, events in, effects out.

A front end compiles its definitions into a :class:`Net` and brings a :class:`Language`: how data reaches an activity,
what a result changes, when a guard holds. The kernel moves the tokens. Everything here is a function over values,
without I/O, clock or waiting; :func:`advance` is the whole of it (spec/playbook-routing.md Part B).
"""

from statewright.net.advance import INTERRUPTED, Advance, advance, is_waiting, start
from statewright.net.document import marking_from_document, marking_to_document
from statewright.net.durations import Delay, due, parse_delay
from statewright.net.identifiers import (
    IDS_PER_MOMENT,
    ActivationId,
    ExecutionId,
    Moment,
    NodeId,
    TimerId,
    WorkId,
    ulid,
    ulid_number,
    ulid_to_uuid,
    uuid_to_ulid,
)
from statewright.net.language import Completed, Language, Problem
from statewright.net.marking import Activation, Answer, Branch, Marking, Move, PendingTimer, Phase, Stage, Token
from statewright.net.nodes import (
    AllBranches,
    AllOf,
    Arc,
    BoundaryTimer,
    Each,
    Human,
    Net,
    Node,
    Nothing,
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
    "Advance",
    "AllBranches",
    "AllOf",
    "Answer",
    "Arc",
    "BoundaryTimer",
    "Branch",
    "Completed",
    "Delay",
    "Each",
    "ExecutionId",
    "Human",
    "Language",
    "Marking",
    "Moment",
    "Move",
    "Net",
    "Node",
    "NodeId",
    "Nothing",
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
    "advance",
    "due",
    "is_waiting",
    "marking_from_document",
    "marking_to_document",
    "parse_delay",
    "start",
    "ulid",
    "ulid_number",
    "ulid_to_uuid",
    "uuid_to_ulid",
]
