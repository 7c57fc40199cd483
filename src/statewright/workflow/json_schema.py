"""The JSON Schema of workflow definitions (docs/reference/workflows.md#the-definition), for editors and the OpenAPI
document.

It describes the strict contract: members that it does not know are refused. Names of members, types and defaults are
those that ``reading.py`` reads; a test holds the two together.
"""

from collections.abc import Mapping
from typing import Final, cast

from statewright.conditions.wire import Ref, describe_conditions
from statewright.jsonval.values import JsonObject, JsonValue
from statewright.workflow.definition import EXECUTION_MODES
from statewright.workflow.retries import RETRY_CAUSES
from statewright.workflow.structure import MAX_NAME_BYTES

SCHEMA_ID: Final = "urn:statewright:schema:workflows"

_PREFIX: Final = "#/$defs/"

_NAME: Final[JsonObject] = {"type": "string", "minLength": 1, "maxLength": MAX_NAME_BYTES}
_FLAG: Final[JsonObject] = {"type": ["boolean", "null"], "default": False}
_TAGS: Final = "tags, separated by `,` or `;`: the member must declare all of them"
_START_NEW_TX: Final[JsonObject] = {
    "type": ["boolean", "null"],
    "description": "with COMMIT_BEFORE_DISPATCH only: give the member a transaction for its callbacks",
}


def _ref(name: str) -> JsonObject:
    return {"$ref": f"{_PREFIX}{name}"}


def _define_object(
    description: str, members: Mapping[str, JsonObject], *required: str, nullable: bool = False
) -> JsonObject:
    schema: JsonObject = {
        "description": description,
        "type": ["object", "null"] if nullable else "object",
        "properties": dict(members.items()),
        "additionalProperties": False,
    }
    return {**schema, "required": list(required)} if required else schema


def _allow_null(schema: JsonObject, description: str) -> JsonObject:
    told: JsonObject = {"description": description} if description else {}
    return {**told, "anyOf": [schema, {"type": "null"}]}


_DURATION: Final[JsonObject] = {"type": "string", "description": "an ISO 8601 duration, at most PT10M"}
_OWN_ANNOTATIONS: Final = _define_object(
    "what the service itself reads",
    {
        "retry": _define_object(
            "of processors and function criteria: when a callout is tried again",
            {
                "attempts": {"type": "integer", "minimum": 1, "maximum": 20, "default": 3},
                "delay": _DURATION | {"default": "PT0.5S"},
                "maxDelay": _DURATION | {"default": "PT30S"},
                "totalTime": _DURATION | {"default": "PT60S"},
                "factor": {"type": "number", "minimum": 1, "maximum": 10, "default": 2},
                "jitter": {"type": "number", "minimum": 0, "maximum": 1, "description": "0.2 by default"},
                "failover": {"type": "boolean", "default": True},
                "on": {"type": "array", "items": {"enum": list(RETRY_CAUSES)}},
            },
        )
    },
)

_IMPORT: Final = _define_object(
    "the body of an import, or an export that is sent as it is",
    {
        "importMode": {
            "type": "string",
            "enum": ["MERGE", "REPLACE", "ACTIVATE"],
            "default": "MERGE",
            "description": (
                "MERGE replaces workflows of the same name and keeps the others, REPLACE keeps none, "
                "ACTIVATE keeps the others and makes them inactive"
            ),
        },
        "allowCycles": {**_FLAG, "description": "do not check for endless cascades"},
        "workflows": {"type": ["array", "null"], "items": _ref("Workflow")},
        "entityName": {"type": "string", "description": "of an export: that of the path"},
        "modelVersion": {"type": "integer", "format": "int32", "description": "of an export: that of the path"},
    },
)

_WORKFLOW: Final = _define_object(
    "a finite state machine of a model",
    {
        "version": {
            "type": "string",
            "description": "the import contract that the workflow is written for",
            "examples": ["1.3"],
        },
        "name": {**_NAME, "description": "unique in the model"},
        "desc": {"type": ["string", "null"]},
        "initialState": {"type": "string", "minLength": 1, "description": "a key of `states`"},
        "active": {"type": ["boolean", "null"], "default": True, "description": "false: governs no entity"},
        "criterion": _allow_null(_ref("Criterion"), "which new entities take this workflow; none: all"),
        "criterionAnnotations": _ref("Annotations"),
        "annotations": _ref("Annotations"),
        "states": {
            "type": "object",
            "propertyNames": {"minLength": 1, "maxLength": MAX_NAME_BYTES},
            "additionalProperties": _ref("WorkflowState"),
        },
    },
    "name",
    "initialState",
    "states",
)

_TRANSITION: Final = _define_object(
    "a way out of a state",
    {
        "name": {**_NAME, "description": "unique in its state"},
        "next": {"type": "string", "minLength": 1, "description": "a key of `states`"},
        "manual": {**_FLAG, "description": "true: only a client fires it"},
        "disabled": {**_FLAG, "description": "true: never fires"},
        "criterion": _allow_null(_ref("Criterion"), "what must hold; none: always"),
        "criterionAnnotations": _ref("Annotations"),
        "processors": {
            "type": ["array", "null"],
            "items": _ref("Processor"),
            "description": "run in order before the state changes",
        },
        "schedule": _allow_null(_ref("Schedule"), "makes it a scheduled transition; excludes `manual: true`"),
        "annotations": _ref("Annotations"),
    },
    "name",
    "next",
)

_MODES: Final[list[JsonValue]] = [*EXECUTION_MODES, "", None]
_PROCESSOR: Final = _define_object(
    "a callout that is made while a transition fires",
    {
        "type": {"type": ["string", "null"], "examples": ["externalized", "EXTERNAL"]},
        "name": {**_NAME, "description": "what the member knows it by"},
        "executionMode": {
            "enum": _MODES,
            "description": "SYNC and ASYNC_SAME_TX: in the transaction; ASYNC_NEW_TX: in a savepoint, may fail; "
            "COMMIT_BEFORE_DISPATCH: between two transactions; empty: SYNC",
        },
        "startNewTxOnDispatch": _START_NEW_TX,
        "config": _allow_null(_ref("ProcessorConfig"), ""),
        "annotations": _ref("Annotations"),
    },
    "name",
)

_CONFIG: Final = _define_object(
    "how a processor is called",
    {
        "attachEntity": {"type": ["boolean", "null"], "default": True, "description": "send the document along"},
        "calculationNodesTags": {"type": ["string", "null"], "description": f"{_TAGS}; none: any member"},
        "responseTimeoutMs": {
            "type": ["integer", "null"],
            "format": "int64",
            "default": 30_000,
            "description": "how long the member may take; 0 and less mean the default",
        },
        "retryPolicy": {"enum": ["NONE", "FIXED", "", None], "description": "empty: NONE, one attempt"},
        "context": {"type": ["string", "null"], "description": "handed to the member as `parameters`"},
        "startNewTxOnDispatch": _START_NEW_TX,
        "asyncResult": {"enum": [False, None], "description": "`true` is refused"},
        "crossoverToAsyncMs": {"type": "null", "description": "refused"},
    },
)

_SCHEDULE_FUNCTION: Final = _define_object(
    "a callout that says when to fire",
    {
        "name": {"type": "string", "minLength": 1, "description": "what the member knows it by"},
        "resultKind": {"const": "Schedule"},
        "calculationNodesTags": {"type": "string", "minLength": 1, "description": _TAGS},
        "attachEntity": {"type": ["boolean", "null"], "default": True},
        "context": {"type": ["string", "null"]},
        "responseTimeoutMs": {"type": ["integer", "null"], "format": "int64", "default": 30_000},
    },
    "name",
    "resultKind",
    "calculationNodesTags",
)

_SCHEDULE: Final[JsonObject] = {
    **_define_object(
        "when a scheduled transition fires: after a delay, or when a function says",
        {
            "delayMs": {
                "type": ["integer", "null"],
                "format": "int64",
                "description": "how long after the entity has settled; above 0, or 0 beside a function",
            },
            "timeoutMs": {
                "type": ["integer", "null"],
                "format": "int64",
                "description": "with `delayMs`: tolerated lateness. Absent: any; 0: none",
            },
            "function": _allow_null(_ref("ScheduleFunction"), ""),
        },
    ),
    "anyOf": [
        {"required": ["delayMs"], "properties": {"delayMs": {"type": "integer", "exclusiveMinimum": 0}}},
        {"required": ["function"], "properties": {"function": {"type": "object", "additionalProperties": True}}},
    ],
}

_DEFINITIONS: Final[Mapping[str, JsonObject]] = {
    "WorkflowImport": _IMPORT,
    "Workflow": _WORKFLOW,
    "WorkflowState": _define_object(
        "a state, and the ways out of it",
        {
            "transitions": {
                "type": ["array", "null"],
                "items": _ref("Transition"),
                "description": "the order counts: the first automated one whose criterion holds fires",
            },
            "annotations": _ref("Annotations"),
        },
        nullable=True,
    ),
    "Transition": _TRANSITION,
    "Processor": _PROCESSOR,
    "ProcessorConfig": _CONFIG,
    "Schedule": _SCHEDULE,
    "ScheduleFunction": _SCHEDULE_FUNCTION,
    "Annotations": {
        "type": ["object", "null"],
        "description": "for tools: kept and exported; 65,536 bytes of compact JSON at most",
        "properties": {"displayName": {}, "description": {}, "statewright": _OWN_ANNOTATIONS},
    },
}
"""By name, those of their criteria apart."""


def build_workflow_schema() -> JsonObject:
    """A schema (draft 2020-12) of the body of an import, of an export, and of a single workflow."""
    documents: JsonObject = {}
    for name in ("WorkflowImport", "Workflow"):
        schema = _DEFINITIONS[name]
        members = cast("JsonObject", schema["properties"])
        documents[name] = {**schema, "properties": {"$schema": {"type": "string"}, **members}}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": SCHEMA_ID,
        "title": "Workflows of an entity model",
        "anyOf": [_ref("WorkflowImport"), _ref("Workflow")],
        "$defs": {**_DEFINITIONS, **documents, **describe_conditions(_ref)},
    }


def describe_workflows(ref: Ref) -> Mapping[str, JsonObject]:
    """The schemas of workflows by name, those of their criteria apart, with references as ``ref`` makes them."""

    def refer(schema: JsonValue) -> JsonValue:
        match schema:
            case {"$ref": str(path)}:
                return ref(path.removeprefix(_PREFIX))
            case dict():
                return {name: refer(part) for name, part in schema.items()}
            case list():
                return [refer(part) for part in schema]
            case _:
                return schema

    return {name: {word: refer(part) for word, part in schema.items()} for name, schema in _DEFINITIONS.items()}
