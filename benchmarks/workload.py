"""What is stored and moved: Nobel prizes of about 400 bytes, and a workflow with two states."""

import json
from itertools import product
from typing import Final

from benchmarks.jobs import Operation

MODEL: Final = "nobel-prize"
VERSION: Final = 1
TAG: Final = "approval-service"
CLOSED, OPEN = "CLOSED", "OPEN"
JOB_TYPES: Final[dict[Operation, tuple[str, ...]]] = {
    "job": ("approve",),
    "start": ("wait",),
    "chain": ("check", "approve-checked", "notify"),
}
"""Of the service tasks of the process that an operation is about. No two processes share one, so that no operation is
given jobs that another has left.
"""

_WINNERS = (
    ("physics", "John", "Hopfield", "foundational discoveries that enable machine learning with neural networks"),
    ("chemistry", "David", "Baker", "computational protein design"),
    ("medicine", "Victor", "Ambros", "the discovery of microRNA and its role in gene regulation"),
    ("literature", "Han", "Kang", "her intense poetic prose that confronts historical traumas"),
    ("peace", "Narges", "Mohammadi", "her fight against the oppression of women"),
    ("economics", "Claudia", "Goldin", "having advanced our understanding of women's labour market outcomes"),
)


def documents() -> tuple[bytes, ...]:
    """Different documents of one shape, as compact JSON."""
    return tuple(
        json.dumps(
            {
                "year": str(year),
                "category": category,
                "overallMotivation": f"awarded in Stockholm or Oslo on the tenth of December {year}",
                "prizeAmount": 11_000_000 - 1000 * (2024 - year),
                "laureates": [
                    {"id": 1000 + year, "firstname": first, "surname": last, "motivation": motivation, "share": share}
                    for share in (1, 2)
                ],
            },
            separators=(",", ":"),
        ).encode()
        for (category, first, last, motivation), year in product(_WINNERS, range(1985, 2025))
    )


def workflow_import() -> bytes:
    """Two states; every move exists plain, and with one synchronous processor in front."""
    moves = {OPEN: ("close", CLOSED), CLOSED: ("reopen", OPEN)}
    states = {
        state: {"transitions": [_transition(name, to), _transition(f"checked-{name}", to, _processor())]}
        for state, (name, to) in moves.items()
    }
    workflow = {"version": "1.3", "name": "prize-lifecycle", "initialState": OPEN, "active": True, "states": states}
    return json.dumps({"importMode": "REPLACE", "workflows": [workflow]}).encode()


def process_id(operation: Operation) -> str:
    """What the definition is called that an operation is about."""
    return f"bench::{operation}"


def process_definition(operation: Operation) -> bytes:
    """Of the step engine: service tasks one after the other."""
    types = JOB_TYPES[operation]
    tasks = [
        {"id": name, "name": name, "type": "SERVICE_TASK", "jobType": name, "nextStep": then}
        for name, then in zip(types, (*types[1:], "end"), strict=True)
    ]
    steps = [*tasks, {"id": "end", "name": "End", "type": "END"}]
    return json.dumps({"id": process_id(operation), "name": operation, "steps": steps}).encode()


def _transition(name: str, to: str, *processors: dict[str, object]) -> dict[str, object]:
    return {"name": name, "next": to, "manual": True, "processors": list(processors)}


def _processor() -> dict[str, object]:
    config = {"attachEntity": True, "calculationNodesTags": TAG, "responseTimeoutMs": 30_000}
    return {"type": "EXTERNAL", "name": "notify-approval", "executionMode": "SYNC", "config": config}
