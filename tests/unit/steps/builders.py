"""Valid definitions in JSON, so that a test mentions only what matters."""

from statewright.jsonval.values import JsonObject, JsonValue
from statewright.steps import Process, compile_definition
from statewright.steps.documents import definition_from_document


def a_definition(*steps: JsonObject, **members: JsonValue) -> JsonObject:
    """A definition of these steps; with none given, of a service task and an END."""
    listed: list[JsonValue] = [*steps] or [service("work", "end"), end()]
    return {"id": "test::flow", "name": "Flow", "steps": listed} | members


def a_process(*steps: JsonObject, **members: JsonValue) -> Process:
    return compile_definition(definition_from_document(a_definition(*steps, **members)), 1)


def a_step(step_id: str, step_type: str, **members: JsonValue) -> JsonObject:
    return {"id": step_id, "name": step_id.title(), "type": step_type} | members


def service(step_id: str, next_step: str | None = None, **members: JsonValue) -> JsonObject:
    """A service task whose job type is its id."""
    return a_step(step_id, "SERVICE_TASK", **{"jobType": step_id, "nextStep": next_step} | members)


def user(step_id: str, next_step: str | None = None, **members: JsonValue) -> JsonObject:
    return a_step(step_id, "USER_TASK", nextStep=next_step, **members)


def wait(step_id: str, next_step: str, **members: JsonValue) -> JsonObject:
    return a_step(step_id, "WAIT", nextStep=next_step, **members)


def decision(step_id: str, branches: dict[str, str], **members: JsonValue) -> JsonObject:
    return a_step(step_id, "DECISION", conditionalNextSteps={**branches}, **members)


def transformation(step_id: str, next_step: str, **values: JsonValue) -> JsonObject:
    return a_step(step_id, "TRANSFORMATION", nextStep=next_step, transformations=values)


def table(step_id: str, next_step: str, *rules: JsonObject, **members: JsonValue) -> JsonObject:
    return a_step(step_id, "DECISION_TABLE", nextStep=next_step, decisionTable={"rules": [*rules]}, **members)


def a_rule(when: dict[str, str] | None = None, **outputs: JsonValue) -> JsonObject:
    return {"when": {**(when or {})}, "outputs": outputs}


def fork(step_id: str, join_step: str, *branches: str) -> JsonObject:
    return a_step(step_id, "PARALLEL_GATEWAY", joinStep=join_step, parallelNextSteps=[*branches])


def join(step_id: str, next_step: str) -> JsonObject:
    return a_step(step_id, "JOIN_GATEWAY", nextStep=next_step)


def end(step_id: str = "end", **members: JsonValue) -> JsonObject:
    return a_step(step_id, "END", **members)


def timer(duration: str, target: str, *, interrupting: bool = False) -> JsonObject:
    return {"type": "TIMER", "duration": duration, "interrupting": interrupting, "targetStepId": target}
