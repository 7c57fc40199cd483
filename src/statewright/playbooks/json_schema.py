"""The JSON Schema of playbooks, for editors (docs/reference/playbooks.md#json-schema): members and their forms.

What depends on other parts of the document, as names of steps and scopes of templates, is for lint.
"""

from typing import Final, cast, get_args

from statewright.jsonval.values import JsonObject, JsonValue
from statewright.playbooks.definition import (
    Backoff,
    Do,
    FailureMode,
    FinalStepFailure,
    JoinMode,
    Limits,
    LoopFailureMode,
    OnDeny,
    OnIncomplete,
    OnQuiescence,
    OnUnmatched,
    RouterMode,
)
from statewright.playbooks.policies import MAX_ATTEMPTS, MAX_RULES
from statewright.playbooks.reading import API_VERSIONS, KIND, MAX_STEPS
from statewright.playbooks.steps import MAX_ARCS, MAX_TIMEOUT_S
from statewright.playbooks.tasks import MAX_TASKS

SCHEMA_ID: Final = "urn:statewright:schema:playbook"

_TEXT: Final[JsonObject] = {"type": "string"}
_NAME: Final[JsonObject] = {"type": "string", "minLength": 1}
_OBJECT: Final[JsonObject] = {"type": "object"}
_ANY: Final[JsonObject] = {}
_TEMPLATE: Final[JsonObject] = {"type": "string", "pattern": r"\{\{|\{%"}
_TIMEOUT: Final[JsonObject] = {"type": "number", "exclusiveMinimum": 0, "maximum": MAX_TIMEOUT_S}
_CONDITION: Final[JsonObject] = {
    "type": ["string", "boolean", "null"],
    "description": "an expression, or a template that is one; absent: it always holds",
}
_ASSIGNMENTS: Final[JsonObject] = {
    "type": ["object", "null"],
    "description": "keys of ctx (`ctx.a.b`) to values, which may be templates",
}


def _ref(name: str) -> JsonObject:
    return {"$ref": f"#/$defs/{name}"}


def _choose(choices: object) -> JsonObject:
    return {"enum": [*get_args(choices), None]}


def _define(description: str, /, *required: str, is_open: bool = False, **members: JsonObject) -> JsonObject:
    """A mapping, or nothing; members end in ``_`` where their names are words of Python."""
    named: JsonObject = {name.rstrip("_"): schema for name, schema in members.items()}
    schema: JsonObject = {
        "description": description,
        "type": "object" if required else ["object", "null"],
        "properties": named,
    }
    if not is_open:
        schema["additionalProperties"] = False
    return {**schema, "required": [name.rstrip("_") for name in required]} if required else schema


def _list(item: JsonObject, most: int) -> JsonObject:
    return {"type": "array", "items": item, "maxItems": most}


def _define_rules(then: JsonObject) -> JsonObject:
    """Rules in their order; the last one may be that for all else."""
    rule = _define("what follows where a condition holds", "then", when=_CONDITION, then=then)
    otherwise = _define("else", "else_", else_=_define("what follows where none holds", "then", then=then))
    return _list({"anyOf": [rule, otherwise]}, MAX_RULES)


_ACTION: Final = _define(
    "what is done about the outcome of a task",
    "do",
    do={"enum": list(get_args(Do))},
    attempts={"type": ["integer", "null"], "minimum": 1, "maximum": MAX_ATTEMPTS},
    backoff=_choose(Backoff),
    delay={"anyOf": [{"type": ["number", "null"], "minimum": 0}, _TEMPLATE], "description": "seconds"},
    to={"type": ["string", "null"], "description": "of do: jump: the label of a task of this step, or previous"},
    set=_ASSIGNMENTS,
    set_ctx=_ASSIGNMENTS,
    set_iter=_ASSIGNMENTS,
)
_TASK: Final = _define(
    "a task: its kind says who does it, all other members are its fields",
    is_open=True,
    kind=_NAME,
    name=_NAME | {"description": "a label, unique in the step"},
    desc=_TEXT,
    input={"type": ["object", "string", "null"]},
    spec=_define(
        "configuration of the task",
        is_open=True,
        policy=_define(
            "what is done about its outcomes",
            "rules",
            mode=_ANY,
            on_unmatched=_choose(OnUnmatched),
            rules=_define_rules(_ACTION),
        ),
    ),
)
_ENTRY: Final[JsonObject] = {
    "anyOf": [
        _ref("Task"),
        {"description": "a label and its task", "type": "object", "maxProperties": 1, "additionalProperties": _OBJECT},
    ]
}
_JOIN: Final = _define(
    "makes one token of those from several steps",
    mode=_choose(JoinMode),
    n={"type": ["integer", "null"], "minimum": 1},
    on_incomplete=_choose(OnIncomplete),
    steps={"type": ["array", "null"], "items": _NAME},
)
_ADMISSION: Final = _define(
    "whether a token may begin the step",
    "rules",
    mode=_ANY,
    on_deny=_choose(OnDeny),
    rules=_define_rules(_define("", allow={"type": ["boolean", "null"]})),
)
_LOOP: Final = _define(
    "does the step for each element",
    "in_",
    in_={"type": ["array", "string"], "description": "the elements, or a template of them"},
    iterator=_NAME,
    spec=_define(
        "how",
        is_open=True,
        mode={"enum": ["sequential", "parallel", None]},
        max_in_flight={"anyOf": [{"type": ["integer", "null"], "minimum": 1}, _TEMPLATE]},
        policy=_define("", exec=_ANY, failure=_define("", mode=_choose(LoopFailureMode))),
    ),
)
_NEXT: Final = _define(
    "where the token goes",
    "arcs",
    arcs=_list(_ref("Arc"), MAX_ARCS) | {"minItems": 1},
    spec=_define("", mode=_choose(RouterMode), on_no_match=_ANY, policy=_ANY),
)
_DEFINITIONS: Final[JsonObject] = {
    "Task": _TASK,
    "Arc": _define(
        "a way to a step",
        "step",
        step=_NAME,
        when=_CONDITION,
        args={"type": ["object", "string", "null"]},
        set=_ASSIGNMENTS,
        desc=_TEXT,
    ),
    "Step": _define(
        "a step: one task or several, and where it goes on",
        "step",
        step=_NAME,
        desc=_TEXT,
        description=_TEXT,
        input={"type": ["object", "string", "null"]},
        loop=_LOOP,
        tool={"anyOf": [_ref("Task"), _list(_ENTRY, MAX_TASKS) | {"minItems": 1}, {"type": "null"}]},
        set=_ASSIGNMENTS,
        next={**_NEXT, "type": ["object", "null"]},
        spec=_define(
            "rules of the step, and configuration of its tasks",
            is_open=True,
            join=_JOIN,
            policy=_define(
                "",
                admit=_ADMISSION,
                failure=_define("", mode=_choose(LoopFailureMode)),
                lifecycle=_define("", timeout_s=_TIMEOUT),
            ),
        ),
    ),
}
_LIMITS: Final[JsonObject] = {
    **_define("lower limits than those of the service"),
    "properties": {
        name: {"type": ["integer", "null"], "minimum": 1, "maximum": getattr(Limits(), name)}
        for name in Limits.__struct_fields__
    },
}
_EXECUTOR: Final = _define(
    "rules of the whole execution",
    is_open=True,
    spec=_define(
        "those, and configuration of all tasks",
        is_open=True,
        entry_step=_NAME,
        final_step=_NAME,
        no_next_is_error={"type": ["boolean", "null"]},
        timeout_s={**_TIMEOUT, "type": ["number", "null"]},
        policy=_define(
            "",
            failure=_define("", mode=_choose(FailureMode)),
            final_step_failure=_choose(FinalStepFailure),
            limits=_LIMITS,
            pending=_define("", on_quiescence=_choose(OnQuiescence)),
        ),
    ),
)
_WORKBOOK: Final[JsonObject] = {
    "description": "tasks that steps use by their names (kind: workbook)",
    "anyOf": [
        _define("", tasks={"type": ["object", "null"], "additionalProperties": _ref("Task")}),
        {"type": "array", "items": _define("", "name", "tool", name=_NAME, tool=_ref("Task"), is_open=True)},
    ],
}


def build_playbook_schema() -> JsonObject:
    """A schema (draft 2020-12) of a playbook, as YAML or JSON."""
    root = _define(
        "a playbook",
        "metadata",
        "workflow",
        apiVersion={"enum": list[JsonValue](API_VERSIONS)},
        kind={"const": KIND},
        metadata=_define(
            "what it is called",
            "name",
            is_open=True,
            name=_NAME,
            path=_NAME,
            version={"type": ["string", "number"]},
            description=_TEXT,
            tags={"anyOf": [_TEXT, {"type": "array", "items": _TEXT}]},
            labels={"type": ["object", "null"]},
        ),
        executor=_EXECUTOR,
        keychain={
            "description": "credentials",
            "type": ["array", "null"],
            "items": _define("one", "name", "kind", is_open=True, name=_NAME, kind=_NAME),
        },
        workbook=_WORKBOOK,
        workflow=_list(_ref("Step"), MAX_STEPS) | {"minItems": 1},
        workload={"type": ["object", "null"], "description": "defaults of what executions are started with"},
    )
    root["properties"] = {"$schema": _TEXT, **cast("JsonObject", root["properties"])}
    head: JsonObject = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": SCHEMA_ID,
        "title": "Playbook",
        "$defs": _DEFINITIONS,
    }
    return {**head, **root}
