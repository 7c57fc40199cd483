"""Definitions of playbooks as they are uploaded and stored (docs/reference/executions.md#definitions).

A version of a playbook, ready to run (docs/reference/executions.md#definitions).
"""

from typing import Final

from msgspec import UNSET, Struct, UnsetType, to_builtins

from statewright.jsonval.values import JsonObject
from statewright.net import Language
from statewright.playbooks.compiling import CompiledPlaybook, compile_net
from statewright.playbooks.definition import Playbook
from statewright.playbooks.place import Finding, InvalidPlaybook
from statewright.playbooks.reading import Reading, read_playbook, restore_playbook
from statewright.playbooks.templates import Turn
from statewright.processes.user_tasks import ASK

MAX_PATH_CHARS: Final = 256


class PlaybookSource(Struct, frozen=True, kw_only=True):
    """A playbook as its author wrote it, in YAML or JSON."""

    text: str
    asks_people: bool | UnsetType = UNSET
    """Set where tasks of the kind ``ask`` are for people: in definitions that were stored before, workers do them."""


class ReadPlaybook(Struct, frozen=True, kw_only=True):
    """A document that is a playbook, and what is doubtful in it."""

    playbook: Playbook
    warnings: tuple[Finding, ...]


class CheckedPlaybook(Struct, frozen=True, kw_only=True):
    """What is told of a playbook, also by another process: what was compiled stays there."""

    path: str
    name: str
    description: str
    playbook_version: str | None
    tags: tuple[str, ...]
    steps: tuple[str, ...]
    kinds: tuple[str, ...]
    """Of the tasks, each once, in the order of the document."""
    warnings: tuple[Finding, ...]


def describe_playbook(read: ReadPlaybook) -> CheckedPlaybook:
    """What is told of a playbook."""
    playbook = read.playbook
    return CheckedPlaybook(
        path=playbook.path,
        name=playbook.name,
        description=playbook.description,
        playbook_version=playbook.version,
        tags=playbook.tags,
        steps=tuple(step.name for step in playbook.steps),
        kinds=tuple(dict.fromkeys(task.kind for step in playbook.steps for task in step.tasks)),
        warnings=read.warnings,
    )


def _take(reading: Reading) -> ReadPlaybook:
    """What was read. Raises :class:`InvalidPlaybook`."""
    if reading.playbook is None:
        raise InvalidPlaybook(reading.errors)
    path = reading.playbook.path
    if len(path) > MAX_PATH_CHARS or not path.isprintable():
        message = f"must have at most {MAX_PATH_CHARS} characters, all of them printable"
        raise InvalidPlaybook((Finding(path="/metadata/path", message=message),))
    return ReadPlaybook(playbook=reading.playbook, warnings=reading.warnings)


def definition_to_document(source: PlaybookSource, checked: CheckedPlaybook, version: int) -> JsonObject:
    """The record clients read, and the document of the entity but for what only the host knows."""
    optional: JsonObject = {"playbookVersion": checked.playbook_version}
    return {
        "path": checked.path,
        "version": version,
        "name": checked.name,
        "description": checked.description,
        "tags": list(checked.tags),
        "source": source.text,
        "steps": list(checked.steps),
        "kinds": list(checked.kinds),
        "warnings": to_builtins(checked.warnings),
        **{name: value for name, value in optional.items() if value is not None},
    }


class PlaybookProcess(Struct, frozen=True, kw_only=True, eq=False):
    """Immutable, and shared by all executions of the version."""

    source: PlaybookSource
    read: ReadPlaybook
    version: int
    compiled: CompiledPlaybook
    asking: frozenset[str] = frozenset()
    """The steps that ask people."""
    is_limited_to_turn: bool = False
    """Whether an operation that computes for long raises ``TurnExceeded``."""

    @property
    def playbook(self) -> Playbook:
        """The document."""
        return self.read.playbook

    def create_language(self, at: int) -> Language:
        """The rules for one operation, at an instant in microseconds of the epoch."""
        return self.compiled.create_language(at, Turn() if self.is_limited_to_turn else None)


def compile_source(source: PlaybookSource, version: int) -> PlaybookProcess:
    """A definition that is registered, as a process. Raises ``InvalidPlaybook``."""
    read = _take(restore_playbook(source.text))
    steps = read.playbook.steps if source.asks_people is True else ()
    asking = frozenset(step.name for step in steps if [task.kind for task in step.tasks] == [ASK])
    compiled = compile_net(read.playbook)
    return PlaybookProcess(source=source, read=read, version=version, compiled=compiled, asking=asking)


def check_source(source: PlaybookSource, *, disabled_kinds: frozenset[str]) -> CheckedPlaybook:
    """What is told of a new playbook that compiles; ``disabled_kinds`` as ``read_playbook`` has them. Raises
    ``InvalidPlaybook``.
    """
    read = _take(read_playbook(source.text, disabled_kinds=disabled_kinds))
    compile_net(read.playbook)
    return describe_playbook(read)
