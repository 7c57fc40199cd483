"""Decoding a definition from what was uploaded (spec/step-engine.md §3.1, §7.4)."""

import json
from typing import Final

from statewright.jsonval.codec import MalformedJson, decode
from statewright.jsonval.values import JsonValue
from statewright.steps.core.definition import BoundaryEvent, DecisionTable, Definition, Rule, Step
from statewright.steps.core.members import Members, UnreadableDefinition, spellings
from statewright.steps.core.texts import quoted

_DEFINITION: Final = spellings(
    "id",
    "version",
    "name",
    "description",
    "autoStartNextWorkflow",
    "nextWorkflowId",
    "steps",
    "metadata",
)
_STEP: Final = spellings(
    "id",
    "name",
    "type",
    "description",
    "nextStep",
    "parallelNextSteps",
    "joinStep",
    "conditionalNextSteps",
    "transformations",
    "jobType",
    "delegateClass",
    "retryCount",
    "boundaryEvents",
    "hitPolicy",
    "decisionTable",
)
_EVENT: Final = spellings("type", "duration", "interrupting", "targetStepId")
_TABLE: Final = spellings("rules", "defaultNextStep")
_RULE: Final = spellings("when", "outputs", "then")


def read_definition(raw: bytes | str) -> Definition:
    """The definition in a text; what follows its first JSON value is ignored. Raises :class:`UnreadableDefinition`."""
    return definition_from(_first_value(raw))


def definition_from(value: JsonValue) -> Definition:
    """The definition in a JSON value. Raises :class:`UnreadableDefinition`."""
    members = Members({} if value is None else value, _DEFINITION, "")
    members.whole("version")  # may be sent back as it was read; it is not the author's to choose
    return Definition(
        id=members.text("id"),
        name=members.text("name"),
        description=members.text("description"),
        auto_start_next_workflow=members.flag("autoStartNextWorkflow"),
        next_workflow_id=members.text("nextWorkflowId"),
        steps=tuple(members.each("steps", _step)),
        metadata=members.object("metadata") or None,
    )


def _step(value: JsonValue, path: str) -> Step:
    members = Members({} if value is None else value, _STEP, path)
    step_id = members.text("id")
    return Step(
        id=step_id,
        name=members.text("name"),
        type=members.text("type"),
        description=members.text("description"),
        next_step=members.text("nextStep"),
        parallel_next_steps=members.texts("parallelNextSteps"),
        join_step=members.text("joinStep"),
        conditional_next_steps=members.texts_by_name("conditionalNextSteps"),
        transformations=members.object("transformations"),
        job_type=members.text("jobType"),
        delegate_class=members.text("delegateClass"),
        retry_count=members.whole("retryCount"),
        boundary_events=tuple(members.each("boundaryEvents", _boundary_event)),
        hit_policy=members.text("hitPolicy"),
        decision_table=_decision_table(members, step_id),
    )


def _boundary_event(value: JsonValue, path: str) -> BoundaryEvent:
    members = Members({} if value is None else value, _EVENT, path)
    return BoundaryEvent(
        type=members.text("type"),
        duration=members.text("duration"),
        interrupting=members.flag("interrupting"),
        target_step_id=members.text("targetStepId"),
    )


def _decision_table(step: Members, step_id: str) -> DecisionTable | None:
    value = step.get("decisionTable")
    if value is None:
        return None
    members = Members(value, _TABLE, step.at("decisionTable"))
    if members.get("defaultNextStep") is not None:
        raise _no_longer_supported(step_id, "decisionTable.defaultNextStep")
    rules = list(members.each("rules", _rule))
    for index, rule in enumerate(rules):
        if rule.get("then") is not None:
            raise _no_longer_supported(step_id, f"decisionTable.rules[{index}].then")
    return DecisionTable(
        rules=tuple(Rule(when=rule.texts_by_name("when"), outputs=rule.object("outputs")) for rule in rules)
    )


def _rule(value: JsonValue, path: str) -> Members:
    return Members({} if value is None else value, _RULE, path)


def _no_longer_supported(step_id: str, member: str) -> UnreadableDefinition:
    return UnreadableDefinition(
        f"step {quoted(step_id)}: {member} is no longer supported; "
        "let rules produce outputs and route with a DECISION step"
    )


def _first_value(raw: bytes | str) -> JsonValue:
    try:
        return decode(raw)
    except MalformedJson as defect:
        if not raw.strip():
            raise UnreadableDefinition("EOF") from None
        first = _without_trailing_text(raw)
        if first is None:
            raise UnreadableDefinition(f"json: {defect}") from None
    try:
        return decode(first)
    except MalformedJson as defect:
        raise UnreadableDefinition(f"json: {defect}") from None


def _without_trailing_text(raw: bytes | str) -> str | None:
    """The text of the first JSON value, when something follows it."""
    try:
        text = (raw if isinstance(raw, str) else raw.decode()).lstrip(" \t\r\n")
        _, end = json.JSONDecoder().raw_decode(text)
    except (ValueError, RecursionError):
        return None
    return text[:end] if text[end:].strip() else None
