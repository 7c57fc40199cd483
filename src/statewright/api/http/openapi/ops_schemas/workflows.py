"""Checks and simulations of workflows."""

from typing import Final

from statewright.api.http.openapi.ops_schemas.common import MAP
from statewright.api.http.openapi.shapes import (
    FLAG,
    INSTANT,
    INT32,
    INT64,
    TEXT,
    UUID,
    Document,
    allow_null,
    define_array,
    define_open_object,
    ref,
)

_CHANGE: Final[Document] = {"type": "string", "enum": ["ADDED", "REMOVED", "CHANGED"]}
_NAME_CHANGES: Final = define_open_object("added removed", added=define_array(TEXT), removed=define_array(TEXT))

WORKFLOWS: Final[Document] = {
    "OpsFinding": define_open_object(
        "code severity path message hint",
        code=TEXT,
        severity={"type": "string", "enum": ["ERROR", "WARNING", "INFO"]},
        path=TEXT,
        message=TEXT,
        hint=allow_null(TEXT),
        witness=MAP,
    ),
    "OpsWorkflowCheck": define_open_object(
        "importable findings diff affected",
        importable=FLAG,
        findings=define_array(ref("OpsFinding")),
        diff=allow_null(
            define_open_object(
                "workflows states timers tags",
                workflows=define_array(
                    define_open_object("name change patch", name=TEXT, change=_CHANGE, patch=define_array(MAP))
                ),
                states=_NAME_CHANGES,
                timers=define_array(
                    define_open_object(
                        "workflow state transition change", workflow=TEXT, state=TEXT, transition=TEXT, change=_CHANGE
                    )
                ),
                tags=_NAME_CHANGES,
            )
        ),
        affected=allow_null(
            define_open_object(
                "total byState armedTimers",
                total=INT64,
                byState=define_array(
                    define_open_object(
                        "workflow state count issue",
                        workflow=TEXT,
                        state=TEXT,
                        count=INT64,
                        issue=allow_null({"type": "string", "enum": ["STATE_REMOVED"]}),
                    )
                ),
                armedTimers=INT64,
            )
        ),
    ),
    "OpsScenario": {
        "type": "object",
        "required": ["start"],
        "additionalProperties": False,
        "properties": {
            "workflows": {"type": ["array", "null"], "items": MAP},
            "start": {
                "type": "object",
                "properties": {"document": MAP, "entityId": UUID, "transactionId": UUID},
                "additionalProperties": False,
            },
            "events": {
                "type": "array",
                "maxItems": 1000,
                "items": {
                    "type": "object",
                    "properties": {
                        "fire": TEXT,
                        "loopback": {"type": "object", "maxProperties": 0},
                        "advance": TEXT,
                        "document": allow_null(MAP),
                    },
                    "additionalProperties": False,
                },
            },
            "stubs": {
                "type": "object",
                "properties": {"processors": MAP, "criteria": MAP, "functions": MAP},
                "additionalProperties": False,
            },
            "principal": {
                "type": ["object", "null"],
                "required": ["id"],
                "properties": {
                    "id": TEXT,
                    "kind": {"type": "string", "enum": ["user", "service", "system"]},
                    "roles": define_array(TEXT),
                },
                "additionalProperties": False,
            },
            "at": allow_null(INSTANT),
        },
    },
    "OpsSimulation": define_open_object(
        "outcome state document path timers findings failure",
        outcome={"type": "string", "enum": ["SETTLED", "FAILED"]},
        state=allow_null(TEXT),
        document=allow_null(MAP),
        path=define_array(
            define_open_object(
                "event at from transition to criteria processors failure",
                event=INT32,
                at=INSTANT,
                transition=TEXT,
                to=TEXT,
                criteria=define_array(MAP),
                processors=define_array(MAP),
                failure=allow_null(TEXT),
                **{"from": TEXT},
            )
        ),
        timers=define_array(define_open_object("state transition dueAt", state=TEXT, transition=TEXT, dueAt=INSTANT)),
        findings=define_array(define_open_object("code path message", code=TEXT, path=TEXT, message=TEXT)),
        failure=allow_null(TEXT),
    ),
}
