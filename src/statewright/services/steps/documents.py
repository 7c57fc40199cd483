"""Instances and user tasks as documents of their entities, and values as the JSON texts that tables hold."""

import re
from decimal import Decimal
from typing import Final, cast

import msgspec

from statewright.failures import StepBadRequest
from statewright.jsonval.codec import encode, is_nested_too_deep
from statewright.jsonval.values import JsonObject, JsonValue
from statewright.net.effects import CloseHumanTask, OpenHumanTask
from statewright.steps.core import Instance, from_document, to_document
from statewright.steps.core.times import instant_text

_decode = msgspec.json.Decoder(float_hook=Decimal).decode
"""What is stored was checked on its way in: no need to look for repeated names once more."""

_NUL: Final = re.compile(r"(?<!\\)((?:\\\\)*)\\u0000")


def read(text: str) -> JsonValue:
    """A stored JSON text as values."""
    return cast("JsonValue", _decode(text))  # untyped decoding yields nothing else


def read_object(text: str | None) -> JsonObject:
    """A stored JSON object; anything else is empty."""
    value = None if text is None else read(text)
    return value if isinstance(value, dict) else {}


def written(value: JsonValue) -> str:
    """A value as JSON text. The core lets no expression make what PostgreSQL cannot hold."""
    return encode(value).decode()


def instance_text(instance: Instance) -> str:
    """The document of an instance."""
    return written(to_document(instance))


def instance_of(document: str) -> Instance:
    """The instance in the document of its entity."""
    value = read(document)
    assert isinstance(value, dict)  # noqa: S101 - documents are objects
    return from_document(value)


def opened_task(instance: Instance, task: OpenHumanTask, at: int) -> JsonObject:
    """The document of a user task that was opened."""
    document: JsonObject = {
        "id": task.task,
        "instanceId": instance.id,
        "stepId": task.node,
        "stepExecutionId": task.execution,
        "definitionId": instance.definition_id,
        "definitionVersion": instance.definition_version,
        "status": "OPEN",
        "payload": task.input,
        "createdAt": instant_text(at),
    }
    if task.kind:
        document["jobType"] = task.kind
    if instance.business_key:
        document["businessKey"] = instance.business_key
    return document


def closed_task(document: JsonObject, closing: CloseHumanTask, *, state: str, at: int) -> JsonObject:
    """The document after the task was completed, or is not needed any more."""
    closed = {**document, "status": state, "completedAt": instant_text(at)}
    if state == "COMPLETED":
        closed["result"] = closing.result
        if closing.by:
            closed["completedBy"] = closing.by
    return closed


def refuse_unstorable(variables: "JsonObject | None") -> None:
    """Refuse what a document cannot hold. Raises ``StepBadRequest``."""
    if not variables:
        return
    if is_nested_too_deep([[variables]]):
        raise StepBadRequest("variables are nested too deeply")
    try:
        text = encode(variables)
    except (UnicodeError, ValueError, TypeError) as unusable:
        raise StepBadRequest(f"variables cannot be stored: {unusable}") from unusable
    if b"\\u0000" in text and _NUL.search(text.decode()):
        raise StepBadRequest("variables must not contain the character U+0000")
