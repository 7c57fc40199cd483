"""Valid definitions in JSON, so that a test mentions only what matters."""

import json

from statewright.jsonval.values import JsonObject, JsonValue
from statewright.workflow import ImportRequest, Workflow, check_incoming, decode_import

STRICT, SEED = "1.3", "1"


def a_transition(name: str = "go", to: str = "B", **members: JsonValue) -> JsonObject:
    return {"name": name, "next": to, "manual": True, **members}


def automated(name: str, to: str, **members: JsonValue) -> JsonObject:
    return a_transition(name, to, manual=False, **members)


def a_processor(name: str = "price", **members: JsonValue) -> JsonObject:
    return {"type": "EXTERNAL", "name": name, **members}


def a_function(**members: JsonValue) -> JsonObject:
    return {"name": "when", "resultKind": "Schedule", "calculationNodesTags": "clock", **members}


def states_of(**transitions: list[JsonValue]) -> JsonObject:
    return {name: {"transitions": listed} for name, listed in transitions.items()}


def a_workflow(name: str = "parcel", **members: JsonValue) -> JsonObject:
    """Two states, A with one manual transition to B; of the strict contract unless another version is given."""
    return {
        "version": STRICT,
        "name": name,
        "initialState": "A",
        "states": {"A": {"transitions": [a_transition()]}, "B": {}},
    } | members


def with_transition(transition: JsonObject, **members: JsonValue) -> JsonObject:
    """A workflow whose state A has that one transition."""
    return a_workflow(states={"A": {"transitions": [transition]}, "B": {}}, **members)


def with_processor(processor: JsonObject, **members: JsonValue) -> JsonObject:
    """A workflow whose transition has that one processor."""
    return with_transition(a_transition(processors=[processor]), **members)


def a_body(*workflows: JsonValue, **members: JsonValue) -> bytes:
    return json.dumps({"workflows": list(workflows), **members}, ensure_ascii=False).encode()


def a_request(*workflows: JsonValue, **members: JsonValue) -> ImportRequest:
    return decode_import(a_body(*workflows, **members))


def imported(*workflows: JsonValue) -> tuple[Workflow, ...]:
    """The definitions, decoded and found in order."""
    request = a_request(*workflows)
    check_incoming(request)
    return request.workflows
