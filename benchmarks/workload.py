"""What is stored and moved: Nobel prizes of about 400 bytes, and a workflow with two states."""

import json
from itertools import product
from typing import Final

from msgspec import Struct

from benchmarks.jobs import Operation

MODEL: Final = "nobel-prize"
VERSION: Final = 1
TAG: Final = "approval-service"
CLOSED, OPEN = "CLOSED", "OPEN"
MODES: Final[dict[Operation, str]] = {
    "dispatch": "SYNC",
    "same-tx": "ASYNC_SAME_TX",
    "new-tx": "ASYNC_NEW_TX",
    "commit-before": "COMMIT_BEFORE_DISPATCH",
}
"""The execution mode of the processor of a transition."""

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
    """Two states; every move exists plain, and with one processor of each mode in front."""
    moves = {OPEN: ("close", CLOSED), CLOSED: ("reopen", OPEN)}
    states = {
        state: {
            "transitions": [
                _transition(name, to),
                *(_transition(f"{operation}-{name}", to, _processor(mode)) for operation, mode in MODES.items()),
            ]
        }
        for state, (name, to) in moves.items()
    }
    workflow = {"version": "1.3", "name": "prize-lifecycle", "initialState": OPEN, "active": True, "states": states}
    return json.dumps({"importMode": "REPLACE", "workflows": [workflow]}).encode()


def search_condition() -> bytes:
    """The prizes of a category in one year: one of 240."""
    clauses = (("$.category", "EQUALS", "peace"), ("$.year", "STARTS_WITH", "2011"))
    conditions = [
        {"type": "simple", "jsonPath": path, "operatorType": operator, "value": value}
        for path, operator, value in clauses
    ]
    return json.dumps({"type": "group", "operator": "AND", "conditions": conditions}).encode()


class Process(Struct, frozen=True, kw_only=True):
    """What an operation on processes describes once, starts, and does."""

    described_at: str
    description: bytes
    started_at: str
    start: bytes
    job_types: tuple[str, ...]
    """Of its tasks. No two processes share one, so that no operation is given jobs that another has left."""
    result: bytes
    """What completes each of its jobs."""


def _take_steps(name: str, *types: str) -> Process:
    """Of the step engine: service tasks one after the other."""
    tasks = [
        {"id": type_, "name": type_, "type": "SERVICE_TASK", "jobType": type_, "nextStep": then}
        for type_, then in zip(types, (*types[1:], "end"), strict=True)
    ]
    steps = [*tasks, {"id": "end", "name": "End", "type": "END"}]
    return Process(
        described_at="/v1/definitions",
        description=json.dumps({"id": f"bench::{name}", "name": name, "steps": steps}).encode(),
        started_at="/v1/instances",
        start=json.dumps({"definitionId": f"bench::{name}", "variables": _INPUT}).encode(),
        job_types=types,
        result=b'{"variables":{"approved":true}}',
    )


def _flow(*types: str) -> Process:
    """The same as a flow."""
    return Process(
        described_at="/v1/flows/definitions",
        description=json.dumps({"id": "bench-flow", "source": " → ".join(types)}).encode(),
        started_at="/v1/flows/instances",
        start=json.dumps({"definitionId": "bench-flow", "input": _INPUT}).encode(),
        job_types=types,
        result=b'{"workerId":"bench","variables":{"approved":true}}',
    )


def _play(kind: str) -> Process:
    """The same as a playbook, all of whose tasks are of one kind."""
    names = ("check", "approve", "notify")
    steps = [
        {"step": name, "tool": {"kind": kind}} | ({"next": {"arcs": [{"step": then}]}} if then else {})
        for name, then in zip(names, (*names[1:], ""), strict=True)
    ]
    return Process(
        described_at="/v1/playbooks",
        description=json.dumps({"metadata": {"name": "bench"}, "workflow": steps}).encode(),
        started_at="/v1/executions",
        start=json.dumps({"path": "bench", "workload": _INPUT}).encode(),
        job_types=(f"playbook:{kind}",) * len(names),
        result=b'{"workerId":"bench","variables":{"status":"ok","result":{"approved":true}}}',
    )


_INPUT: Final = {"applicant": "Ada Lovelace", "amount": 12_345}

PROCESSES: Final[dict[Operation, Process]] = {
    "job": _take_steps("job", "approve"),
    "start": _take_steps("start", "wait"),
    "chain": _take_steps("chain", "check", "approve-checked", "notify"),
    "flow": _flow("CHECK", "APPROVE", "NOTIFY"),
    "playbook": _play("bench"),
}


def _transition(name: str, to: str, *processors: dict[str, object]) -> dict[str, object]:
    return {"name": name, "next": to, "manual": True, "processors": list(processors)}


def _processor(mode: str) -> dict[str, object]:
    config = {"attachEntity": True, "calculationNodesTags": TAG, "responseTimeoutMs": 30_000}
    return {"type": "EXTERNAL", "name": "notify-approval", "executionMode": mode, "config": config}
