"""Valid values to start from: a test says only what matters to it."""

from collections.abc import Mapping
from typing import Any

Json = Any  # any JSON value; a test says which

SAMPLE: Mapping[str, Json] = {"category": "physics", "year": 2024, "motivation": "for attosecond pulses of light"}
"""A prize of the Nobel foundation, in the shape of the documentation's examples."""

# The workflow example of the reference, character by character.
SEED_WORKFLOW = (
    '{ "version": "1", "name": "prize-lifecycle", "desc": "State machine for Nobel Prize entities", '
    '"initialState": "NEW", "active": true, "criterion": null, "states": { "NEW": { "transitions": [ '
    '{ "name": "APPROVE", "next": "APPROVED", "manual": true, "disabled": false, "criterion": null, "processors": [ '
    '{ "type": "EXTERNAL", "name": "notify-approval", "executionMode": "SYNC", "config": { "attachEntity": true, '
    '"calculationNodesTags": "approval-service", "responseTimeoutMs": 30000, "retryPolicy": "", "context": "" } } ] }, '
    '{ "name": "AUTO_VALIDATE", "next": "VALIDATED", "manual": false, "disabled": false, "criterion": '
    '{ "type": "simple", "jsonPath": "$.year", "operatorType": "EQUALS", "value": "2024" }, "processors": [] } ] }, '
    '"APPROVED": { "transitions": [] }, "VALIDATED": { "transitions": [] } }}'
)

# The import examples of the reference.
SEED_IMPORT = (
    '{ "importMode": "MERGE", "workflows": [ { "version": "1", "name": "prize-lifecycle", "initialState": "NEW", '
    '"active": true, "states": { "NEW": { "transitions": [ { "name": "APPROVE", "next": "APPROVED", "manual": true, '
    '"processors": [] } ] }, "APPROVED": { "transitions": [] } } } ] }'
)
SEED_REPLACE = (
    '{ "importMode": "REPLACE", "workflows": [ { "version": "1", "name": "simple-wf", "initialState": "OPEN", '
    '"active": true, "states": { "OPEN": { "transitions": [] } } } ] }'
)


def a_workflow(name: str = "lifecycle", *, version: str = "1.3", initial: str | None = None, **states: Json) -> Json:
    """A workflow of the strict contract; each keyword with a capital is a state and its list of transitions."""
    members = {member: value for member, value in states.items() if member[0].islower()}
    declared = {state: {"transitions": value} for state, value in states.items() if state[0].isupper()}
    return {
        "version": version,
        "name": name,
        "initialState": initial or next(iter(declared)),
        "states": declared,
        **members,
    }


def automated(name: str, *, to: str, **members: Json) -> Json:
    """A transition the cascade takes by itself."""
    return {"name": name, "next": to, "manual": False, **members}


def manual(name: str, *, to: str, **members: Json) -> Json:
    """A transition that a client fires."""
    return {"name": name, "next": to, "manual": True, **members}


def a_processor(name: str = "enrich", *, tags: str = "node", mode: str = "SYNC", **config: Json) -> Json:
    """A processor that calculation members run."""
    settings = {"calculationNodesTags": tags, **config}
    return {"type": "externalized", "name": name, "executionMode": mode, "config": settings}


def when(path: str, operator: str, value: Json = None) -> Json:
    """A simple condition on the document."""
    return {"type": "simple", "jsonPath": path, "operatorType": operator, "value": value}


def judged_by(name: str, *, tags: str = "node", **config: Json) -> Json:
    """A criterion that a calculation member judges."""
    return {"type": "function", "function": {"name": name, "config": {"calculationNodesTags": tags, **config}}}
