"""Definitions of playbooks as they are uploaded and stored (docs/reference/executions.md#definitions)."""

import hashlib
from typing import Final

import msgspec
from msgspec import Struct

from statewright.jsonval.values import JsonObject, JsonValue
from statewright.playbooks.definition import Playbook
from statewright.playbooks.findings import Finding, InvalidPlaybook
from statewright.playbooks.reading import read_playbook

MAX_PATH_CHARS: Final = 256


class PlaybookSource(Struct, frozen=True, kw_only=True):
    """A playbook as its author wrote it, in YAML or JSON."""

    text: str


class ReadPlaybook(Struct, frozen=True, kw_only=True):
    """A document that is a playbook, and what is doubtful in it."""

    playbook: Playbook
    warnings: tuple[Finding, ...]


def read_source(source: PlaybookSource, *, disabled_kinds: frozenset[str] = frozenset()) -> ReadPlaybook:
    """The playbook of a text; ``apiVersion`` and ``kind`` may be absent. Raises :class:`InvalidPlaybook`."""
    reading = read_playbook(source.text, requires_header=False, disabled_kinds=disabled_kinds)
    if reading.playbook is None:
        raise InvalidPlaybook(reading.errors)
    path = reading.playbook.path
    if len(path) > MAX_PATH_CHARS or not path.isprintable():
        message = f"must have at most {MAX_PATH_CHARS} characters, all of them printable"
        raise InvalidPlaybook((Finding(path="/metadata/path", message=message),))
    return ReadPlaybook(playbook=reading.playbook, warnings=reading.warnings)


_encode = msgspec.json.Encoder(order="deterministic").encode


def source_to_text(source: PlaybookSource) -> str:
    """The form in which a definition is stored."""
    return _encode(source).decode()


def source_from_text(text: str) -> PlaybookSource:
    """The definition that :func:`source_to_text` wrote."""
    return msgspec.json.decode(text, type=PlaybookSource)


def hash_source(source: PlaybookSource) -> str:
    """Equal for equal definitions."""
    return hashlib.sha256(_encode(source)).hexdigest()


def list_task_kinds(playbook: Playbook) -> tuple[str, ...]:
    """The kinds of the tasks, each once, in the order of the document."""
    return tuple(dict.fromkeys(task.kind for step in playbook.steps for task in step.tasks))


def describe_finding(finding: Finding) -> JsonObject:
    """What clients are told of an error or a warning."""
    return {"path": finding.path, "message": finding.message, "severity": finding.severity}


def definition_to_document(source: PlaybookSource, read: ReadPlaybook, version: int) -> JsonObject:
    """The record clients read, and the document of the entity but for what only the host knows."""
    playbook = read.playbook
    warnings: list[JsonValue] = [describe_finding(finding) for finding in read.warnings]
    optional: JsonObject = {"playbookVersion": playbook.version}
    return {
        "path": playbook.path,
        "version": version,
        "name": playbook.name,
        "description": playbook.description,
        "tags": list(playbook.tags),
        "source": source.text,
        "steps": [step.name for step in playbook.steps],
        "kinds": list(list_task_kinds(playbook)),
        "warnings": warnings,
        **{name: value for name, value in optional.items() if value is not None},
    }
