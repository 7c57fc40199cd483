"""Resources that the service reads and writes: what their references mean, and their contents as values
(docs/reference/flows.md#resources).
"""

from collections.abc import Iterator
from typing import Final
from uuid import UUID

from msgspec import Struct

from statewright.flows.builtin_tasks import UnfilledTemplate, fill_template
from statewright.flows.graph import ENTITY
from statewright.flows.language import to_flow_value
from statewright.flows.literals import BadLiteral, read_yaml_documents
from statewright.flows.requests import (
    JSON,
    FailedAnswer,
    PlannedRequest,
    ServerAnswer,
    UnusableTask,
    decode_json,
    decode_text,
    is_json,
    split_url,
)
from statewright.jsonval.codec import encode
from statewright.jsonval.values import JsonObject, JsonValue

_METHODS: Final = ("POST", "PUT", "PATCH")
_MAX_DIGITS: Final = 10
"""Of the version of a model."""
_EXTENSIONS: Final = {
    ".json": JSON,
    ".yaml": "application/yaml",
    ".yml": "application/yaml",
    ".jsonl": "application/x-ndjson",
    ".ndjson": "application/x-ndjson",
    ".json-seq": "application/json-seq",
}
_LINES: Final = ("application/x-ndjson", "application/jsonl", "application/x-jsonlines")
_YAML: Final = ("application/yaml", "text/yaml", "application/x-yaml", "text/x-yaml")
_ACCEPT: Final = "application/json, application/yaml;q=0.9, application/x-ndjson;q=0.9, */*;q=0.1"


class EntityPlace(Struct, frozen=True, kw_only=True):
    """An entity that a reference names, or the model of one to be made."""

    model: str = ""
    version: int = 0
    id: str = ""
    """Empty: of the model, a new one."""


def plan_read(payload: JsonObject) -> PlannedRequest:
    """How a resource is read. Raises :class:`UnusableTask`."""
    return PlannedRequest(url=_read_url(payload), method="GET", headers=(("Accept", _ACCEPT),))


def plan_write(payload: JsonObject) -> PlannedRequest:
    """How a value is written. Raises :class:`UnusableTask`."""
    method = str(_read_parameters(payload).get("method", "POST")).upper()
    if method not in _METHODS:
        raise UnusableTask(f"PARAMETERS: method can be {', '.join(_METHODS)}")
    return PlannedRequest(
        url=_read_url(payload),
        method=method,
        headers=(("Accept", _ACCEPT), ("Content-Type", JSON)),
        body=encode(payload.get("input")),
    )


def read_content(payload: JsonObject, answer: ServerAnswer) -> JsonValue:
    """What was read, as a value. Raises :class:`FailedAnswer`."""
    _require_success(answer)
    return _parse(answer.body, _find_media_type(payload, answer))


def read_reply(answer: ServerAnswer) -> JsonValue:
    """What came back for what was written: an object or an array, else ``{}``. Raises :class:`FailedAnswer`."""
    _require_success(answer)
    try:
        value = _parse(answer.body, _find_media_type({}, answer)) if answer.body.strip() else None
    except FailedAnswer:
        value = None
    return value if isinstance(value, dict | list) else {}


def find_entity(payload: JsonObject) -> EntityPlace | None:
    """The entity that a reference names; ``None`` for a reference to anything else. Raises :class:`UnusableTask`."""
    reference = _read_reference(payload)
    if not reference.startswith(ENTITY):
        return None
    try:
        filled = fill_template(reference.removeprefix(ENTITY), payload.get("input"), payload.get("parameters"))
    except UnfilledTemplate as defect:
        raise UnusableTask(f"TEMPLATE: {defect}") from None
    match filled.split("/"):
        case [id_]:
            return EntityPlace(id=_read_id(id_))
        case [model, version, *ids] if model and version.isdecimal() and len(version) <= _MAX_DIGITS and len(ids) <= 1:
            return EntityPlace(model=model, version=int(version), id=_read_id(ids[0]) if ids else "")
        case _:
            raise UnusableTask("RESOURCE: a reference to entities is entity:ID, entity:MODEL/VERSION or both")


def _read_id(text: str) -> str:
    try:
        return str(UUID(text))
    except ValueError:
        raise UnusableTask(f"RESOURCE: {text:.80} is no id of an entity") from None


def _read_reference(payload: JsonObject) -> str:
    return str(payload.get("uri"))


def _read_url(payload: JsonObject) -> str:
    url = _read_reference(payload)
    if not split_url(url, "RESOURCE").scheme:
        raise UnusableTask("RESOURCE: the reference is relative, and the settings have no baseUri")
    return url


def _read_parameters(payload: JsonObject) -> JsonObject:
    parameters = payload.get("parameters")
    return parameters if isinstance(parameters, dict) else {}


def _require_success(answer: ServerAnswer) -> None:
    if not answer.is_success:
        raise FailedAnswer(f"RESOURCE: the server answered {answer.status}", may_pass=answer.may_pass)


def _find_media_type(payload: JsonObject, answer: ServerAnswer) -> str:
    """That of the parameters, else of the response, else of the extension."""
    given = _read_parameters(payload).get("content-type")
    if isinstance(given, str):
        return given.partition(";")[0].strip().lower()
    if answer.media_type:
        return answer.media_type
    path = split_url(_read_reference(payload), "RESOURCE").path.lower()
    return next((kind for extension, kind in _EXTENSIONS.items() if path.endswith(extension)), "")


def _parse(body: bytes, media_type: str) -> JsonValue:
    if media_type in _YAML or media_type.endswith("+yaml"):
        return _parse_yaml(body)
    if media_type in _LINES:
        return [decode_json(line) for line in body.splitlines() if line.strip()]
    if media_type == "application/json-seq":
        return [decode_json(text) for text in _split_sequence(body)]
    if is_json(media_type):
        return to_flow_value(decode_json(body))
    raise FailedAnswer(f"RESOURCE: content of the type {media_type or 'that nobody names':.80} cannot be read")


def _parse_yaml(body: bytes) -> JsonValue:
    try:
        documents = read_yaml_documents(decode_text(body))
    except BadLiteral as defect:
        raise FailedAnswer(f"RESPONSE: no YAML: {defect}") from None
    return to_flow_value(documents[0]) if len(documents) == 1 else documents


def _split_sequence(body: bytes) -> Iterator[bytes]:
    """The texts of a JSON text sequence, which each begin with a record separator."""
    return (text for text in body.split(b"\x1e") if text.strip())
