"""Schemas and examples that process languages have alike, made from what a language calls things."""

from collections.abc import Mapping, Sequence
from typing import Final, TypeAlias, get_args

from statewright.api.http.openapi.operations import (
    ANY_OBJECT,
    FLAG,
    INSTANT,
    INT32,
    INT64,
    OBJECT_ARRAY_OR_NULL,
    TEXT,
    Document,
    define_array,
    define_object,
    define_open_object,
    define_page,
    ref,
)
from statewright.api.http.processes.bodies import INTERNAL, KINDS
from statewright.api.http.processes.tables import name_schema
from statewright.operations.process_nouns import Nouns
from statewright.processes.changes import ExecutionStatus

Examples: TypeAlias = Mapping[str, object]

ULID: Final = {"type": "string", "pattern": "^[0-9A-HJKMNP-TV-Z]{26}$"}
STORED_AT: Final = "2026-06-01T09:30:12.48231Z"
"""When definitions of examples were uploaded."""
PARAMETER_EXAMPLES: Final[Examples] = {"id": "01JABC3V9E6K8M2Q4S6T8W0Y2Z", "version": 1, "page": 0, "pageSize": 20}
"""Of parameters that all languages have."""


PARAMETER: Final[Document] = {
    **TEXT,
    "description": "the parameter that does not bind, or the JSON pointer of what is wrong in the body",
}
"""Of errors that say more than a reason."""


def define_error(**members: object) -> Document:
    """The errors of a language, with members of its own."""
    kinds = {"type": "string", "enum": [*dict.fromkeys(KINDS.values()), INTERNAL]}
    return define_object("error reason", error=kinds, reason=TEXT, **members)


def define_checks(
    nouns: Nouns, id_schema: Document, checked: Document, definition: Document, optional: Document | None = None
) -> Document:
    """What checks, uploads, lists and reads of definitions answer with. ``checked`` are the members that all but lists
    have, ``definition`` and ``optional`` those of the record beside them.
    """
    stored: Document = {"version": INT32, "uploadedAt": INSTANT}
    listed = f"{nouns.title}Summary"
    summary: Document = {
        nouns.id_member: id_schema,
        "version": INT32,
        "name": TEXT,
        "description": TEXT,
        "uploadedAt": INSTANT,
        "versions": define_array(INT32),
    }
    return {
        name_schema(nouns, "check"): define_object(" ".join(checked), **checked),
        name_schema(nouns, "upload"): define_object(
            " ".join([*checked, *stored, "isNew"]),
            **checked,
            **stored,
            isNew={**FLAG, "description": "false: a stored version has the same content"},
        ),
        name_schema(nouns, "definition"): define_object(
            " ".join([*checked, "version", *definition, "uploadedAt"]),
            **checked,
            **definition,
            **stored,
            **(optional or {}),
        ),
        listed: define_object(" ".join(summary), **summary),
        name_schema(nouns, "summaries"): define_page(listed),
        name_schema(nouns, "versions"): define_object(
            "items", items=define_array(define_object("version uploadedAt", **stored))
        ),
        name_schema(nouns, "diagram"): {"type": "string", "description": f"a {nouns.diagram} in Mermaid's notation"},
    }


def define_lists(nouns: Nouns, id_schema: Document, status: Document, *, abridged: str) -> Document:
    """Lists of instances, of which large ones are ``abridged``: the name of that schema."""
    an_instance = "an execution" if nouns.instance == "execution" else f"an {nouns.instance}"
    named: Document = {"id": ULID, nouns.definition_member: id_schema, nouns.status_member: status}
    items = define_array({"anyOf": [ref(name_schema(nouns, "instance")), ref(abridged)]})
    return {
        abridged: {
            **define_object(
                " ".join([*named, "startedAt", "abridged"]),
                **named,
                startedAt=INSTANT,
                completedAt=INSTANT,
                businessKey=TEXT,
                abridged={"const": True},
            ),
            "description": f"{an_instance} in a list, where those before it were large",
        },
        name_schema(nouns, "instances"): define_object(
            "items total page pageSize", items=items, total=INT32, page=INT32, pageSize=INT32
        ),
    }


def define_history(nouns: Nouns, line: str, place: Document, *, elements: str, statuses: str = "") -> Document:
    """The history of an instance, whose lines are called ``line``. ``place`` says where one was, ``elements`` of what
    those are that it may be about, ``statuses`` what has to be said of them.
    """
    status: Document = {"type": "string", "enum": list(get_args(ExecutionStatus))}
    omitted = "input and output are left out, since those before them were large"
    return {
        name_schema(nouns, "history"): define_page(line),
        line: define_object(
            " ".join(["id", *place, "attempt", "status", "startedAt"]),
            id=ULID,
            **place,
            attempt=INT32,
            element={**INT32, "description": f"of {elements}"},
            status=status | ({"description": statuses} if statuses else {}),
            startedAt=INSTANT,
            endedAt=INSTANT,
            input={},
            output={},
            valuesOmitted={**FLAG, "description": omitted},
            failureReason=TEXT,
        ),
    }


def define_log(nouns: Nouns) -> Document:
    """A part of the event log of an instance, and a large value of it."""
    ended = f"the {nouns.instance} had ended before: behind an empty page nothing more comes"
    return {
        name_schema(nouns, "events"): define_object(
            "items next ended",
            items=define_array(ref(name_schema(nouns, "event"))),
            next={**INT64, "description": "the number to ask behind next time"},
            ended={**FLAG, "description": ended},
        ),
        name_schema(nouns, "value"): define_object("value", value={"description": "any JSON value"}),
    }


def build_examples(
    nouns: Nouns, checked: Examples, definition: Examples, instance: Examples, lines: Sequence[Examples]
) -> dict[str, object]:
    """Examples of these schemas."""
    summary = {
        nouns.id_member: checked[nouns.id_member],
        "version": 2,
        "name": checked["name"],
        "description": "",
        "uploadedAt": STORED_AT,
        "versions": [1, 2],
    }
    return {
        name_schema(nouns, "check"): checked,
        name_schema(nouns, "upload"): {**checked, "version": 2, "uploadedAt": STORED_AT, "isNew": True},
        name_schema(nouns, "definition"): {**checked, "version": 2, **definition, "uploadedAt": STORED_AT},
        name_schema(nouns, "summaries"): _fill_page(summary),
        name_schema(nouns, "versions"): {"items": [{"version": 1, "uploadedAt": STORED_AT}]},
        name_schema(nouns, "instance"): instance,
        name_schema(nouns, "instances"): _fill_page(instance),
        name_schema(nouns, "history"): _fill_page(*lines),
    }


def _fill_page(*items: object) -> dict[str, object]:
    return {"items": list(items), "total": len(items), "page": 0, "pageSize": 20}


JOB_SCHEMAS: Final[Document] = {
    "StepPoll": define_open_object(
        "workerId jobTypes",
        workerId=TEXT,
        jobTypes=define_array(TEXT),
        maxJobs={**INT32, "description": "10 when absent or not positive, at most 1000"},
        leaseSeconds={**INT32, "description": "30 when absent or 0, else within 5 and 3600"},
        waitSeconds={**INT32, "description": "ours: how long the answer may wait for the first job, at most 60"},
    ),
    "StepJobs": define_object("jobs", jobs=define_array(ref("StepJob"))),
    "StepJob": define_object(
        "id instanceId stepId stepExecutionId jobType status retriesRemaining variables createdAt",
        id=ULID,
        instanceId=ULID,
        stepId=TEXT,
        stepExecutionId=ULID,
        jobType=TEXT,
        status={"const": "LOCKED"},
        workerId=TEXT,
        lockedAt=INSTANT,
        lockExpiresAt=INSTANT,
        retriesRemaining=INT32,
        variables=ANY_OBJECT,
        createdAt=INSTANT,
    ),
    "StepResult": define_open_object(
        workerId=TEXT,
        variables={**OBJECT_ARRAY_OR_NULL, "description": "an array for tasks of flows only"},
    ),
    "StepFailure": define_open_object(workerId=TEXT, errorMessage=TEXT, retryable={**FLAG, "default": False}),
    "StepRenewal": define_open_object("workerId", workerId=TEXT, leaseSeconds=INT32),
    "StepHeartbeat": define_object("accepted lockExpiresAt", accepted=FLAG, lockExpiresAt=INSTANT),
    "StepLease": define_object("lockExpiresAt", lockExpiresAt=INSTANT),
    "StepProgress": define_open_object("workerId progress", workerId=TEXT, progress=ANY_OBJECT),
    "StepProgressTaken": define_object("patches log", patches=INT32, log=INT32),
    "StepWorker": define_open_object("workerId", workerId=TEXT),
}
"""Of the jobs of all languages, which have the names of the public engine."""
JOB_EXAMPLES: Final[Examples] = {
    "StepPoll": {"workerId": "w-1", "jobTypes": ["greet"], "maxJobs": 64, "waitSeconds": 25},
    "StepJobs": {
        "jobs": [
            {
                "id": "01JABC4V9E6K8M2Q4S6T8W0Y2Z",
                "instanceId": "01JABC3V9E6K8M2Q4S6T8W0Y2Z",
                "stepId": "say-hello",
                "stepExecutionId": "01JABC3V9E6K8M2Q4S6T8W0Y30",
                "jobType": "greet",
                "status": "LOCKED",
                "workerId": "w-1",
                "lockedAt": "2026-06-01T09:31:01Z",
                "lockExpiresAt": "2026-06-01T09:31:31Z",
                "retriesRemaining": 0,
                "variables": {"employee": "E-77"},
                "createdAt": "2026-06-01T09:31:00.5Z",
            }
        ]
    },
    "StepResult": {"workerId": "w-1", "variables": {"greeted": True}},
    "StepFailure": {"workerId": "w-1", "errorMessage": "no voice", "retryable": True},
    "StepRenewal": {"workerId": "w-1", "leaseSeconds": 60},
    "StepHeartbeat": {"accepted": True, "lockExpiresAt": "2026-06-01T09:32:01Z"},
    "StepLease": {"lockExpiresAt": "2026-06-01T09:32:01Z"},
    "StepProgress": {
        "workerId": "w-1",
        "progress": {
            "from": 0,
            "patches": [{"path": ["seen"], "value": 7, "at": 2}],
            "logFrom": 0,
            "log": [
                {"event": "task.started", "task": "count"},
                {"event": "task.attempt.done", "task": "count", "attempt": 1},
            ],
        },
    },
    "StepProgressTaken": {"patches": 1, "log": 2},
    "StepWorker": {"workerId": "w-1"},
}
