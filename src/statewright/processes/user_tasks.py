"""User tasks, whatever the language that opens them: what its author says of one, their model and their documents
(docs/reference/steps.md#user-tasks-and-signals).
"""

from collections.abc import Callable, Mapping
from typing import Annotated, Final

import msgspec
from msgspec import Meta, Struct

from statewright.entity import ModelKey
from statewright.instants import to_rfc3339
from statewright.jsonval.values import JsonObject, JsonValue, guess_name, weigh
from statewright.net import WorkId
from statewright.net.effects import CloseHumanTask, CloseTask, EnqueueTask, OpenHumanTask
from statewright.operations.records import Members
from statewright.processes.language import BuiltinModel, ProcessInstance

ASK: Final = "ask"
"""What authors of flows and playbooks call a task that is a user task."""
MAX_GROUPS: Final = 100
MAX_FORM_VALUES: Final = 10_000
"""Of a form, 64 characters of text counted as one: each task has a copy of it."""

Name = Annotated[str, Meta(min_length=1, max_length=255, pattern=r"\A[^\x00]*\Z")]


class Question(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """What an author says of a user task."""

    title: Annotated[str, Meta(min_length=1, max_length=1_000, pattern=r"\A[^\x00]*\Z")]
    description: Annotated[str, Meta(max_length=10_000, pattern=r"\A[^\x00]*\Z")] = ""
    groups: Annotated[tuple[Name, ...], Meta(max_length=MAX_GROUPS)] = ()
    """Whom it is for, by names that the inbox is filtered by; the service keeps it from nobody."""
    assignee: Name | None = None
    """Whom of them."""
    form: Members = {}
    """What the answer is to look like, for those who show the task."""


QUESTION_MEMBERS: Final = tuple(field.encode_name for field in msgspec.structs.fields(Question))


def read_question(members: "Mapping[str, JsonValue]") -> Question:
    """What is said of a task. Raises ``ValueError``, which names the member."""
    for name in members:
        if name not in QUESTION_MEMBERS:
            meant = guess_name(name, QUESTION_MEMBERS)
            raise ValueError(f"{name[:60]} is not known{meant}; expected {', '.join(QUESTION_MEMBERS)}")
    if "title" not in members:
        raise ValueError("title is missing; expected what the person is asked to do")
    if weigh(members.get("form"), MAX_FORM_VALUES) > MAX_FORM_VALUES:
        raise ValueError(f"form has more than {MAX_FORM_VALUES} values, 64 characters of text counted as one")
    try:
        return msgspec.convert(members, Question)
    except msgspec.ValidationError as defect:
        reason, _, place = str(defect).partition(" - at `$.")
        raise ValueError(f"{place.rstrip('`')}: {reason[:1].lower()}{reason[1:]}") from None


def fill_question(question: Question, fill: Callable[[str], str]) -> Question:
    """The same with its texts filled in. Raises ``ValueError`` where a text is not one any more that may stand there,
    and what ``fill`` raises.
    """
    filled: JsonObject = {
        "title": fill(question.title),
        "description": fill(question.description),
        "groups": [fill(group) for group in question.groups],
        "form": question.form,
    }
    if question.assignee is not None:
        filled["assignee"] = fill(question.assignee)
    return read_question(filled)


def describe_question(question: Question) -> JsonObject:
    """The members that it has in the document of its task."""
    told: JsonObject = msgspec.to_builtins(question)
    return {**told, "groups": [*question.groups]} if question.groups else told


class TaskAnswer(Struct, frozen=True, kw_only=True):
    """What a person answered to a user task; ``by`` may be empty."""

    task: WorkId
    result: JsonValue
    by: str


def ask_question(effect: EnqueueTask, question: Question) -> OpenHumanTask:
    """What has a person do a task that the kernel would have a worker do."""
    return OpenHumanTask(
        task=effect.task,
        execution=effect.execution,
        node=effect.node,
        kind="",
        input=effect.input,
        about=describe_question(question),
    )


def close_question(effect: CloseTask, answer: TaskAnswer | None) -> CloseHumanTask:
    """The end of such a task, with the answer if it is one to this task."""
    if answer is None or answer.task != effect.task:
        return CloseHumanTask(task=effect.task, status=effect.status)
    return CloseHumanTask(task=effect.task, status=effect.status, result=answer.result, by=answer.by or None)


USER_TASK: Final = BuiltinModel(
    key=ModelKey("StepUserTask", 1),
    owner="the step engine",
    sample={
        "id": "01JABC3V9E6K8M2Q4S6T8W0Y2Z",
        "instanceId": "01JABC3V9E6K8M2Q4S6T8W0Y2Z",
        "stepId": "a step",
        "stepExecutionId": "01JABC3V9E6K8M2Q4S6T8W0Y2Z",
        "definitionId": "HR::onboarding",
        "definitionVersion": 1,
        "jobType": "a type",
        "businessKey": "a key",
        "status": "OPEN",
        "payload": {},
        "result": {},
        "completedBy": "a person",
        "createdAt": "2026-06-01T09:31:00.5Z",
        "completedAt": "2026-06-01T09:31:00.5Z",
    },
    states={"OPEN": {"complete": "COMPLETED", "cancel": "CANCELLED"}, "COMPLETED": {}, "CANCELLED": {}},
    client_transitions=frozenset({"complete"}),
    # members that came later are free, so that the models of earlier tenants have them, too
    open_paths=("$.payload", "$.result", "$.language", *(f"$.{name}" for name in QUESTION_MEMBERS)),
)
"""Of all languages: its name is that of the first."""


def to_payload(given: JsonValue) -> JsonObject:
    """What a task works on, as a person is shown it: an object, or the member ``input`` of one."""
    return given if isinstance(given, dict) else {"input": given}


def open_task(language: str, instance: ProcessInstance, task: OpenHumanTask, status: str, at: int) -> JsonObject:
    """The document of a user task that was opened."""
    document: JsonObject = {
        "id": task.task,
        "language": language,
        "instanceId": instance.id,
        "stepId": task.node,
        "stepExecutionId": task.execution,
        "definitionId": instance.definition_id,
        "definitionVersion": instance.definition_version,
        "status": status,
        "payload": to_payload(task.input),
        "createdAt": to_rfc3339(at),
        **task.about,
    }
    if task.kind:
        document["jobType"] = task.kind
    if instance.business_key:
        document["businessKey"] = instance.business_key
    return document


def close_task(document: JsonObject, closing: CloseHumanTask, state: str, at: int) -> JsonObject:
    """The document after the task was completed, or is not needed any more."""
    closed = {**document, "status": state, "completedAt": to_rfc3339(at)}
    if state == "COMPLETED":
        closed["result"] = closing.result
        if closing.by:
            closed["completedBy"] = closing.by
    return closed
