"""What the worker and the process of a task tell each other: a request, and an answer, each one line of JSON."""

from typing import Final, Literal, TypeAlias, get_args

import msgspec
from msgspec import Struct

from statewright.jsonval.values import JsonObject, JsonValue

Kind: TypeAlias = Literal["python", "shell", "postgres", "duckdb", "http"]

KINDS: Final[tuple[Kind, ...]] = get_args(Kind)

MIB: Final = 1024 * 1024


class TaskLimits(Struct, frozen=True, kw_only=True):
    """What each task may use. All but the times, and the number of processes, are limits of each of its processes."""

    time_s: float = 300.0
    cpu_s: int = 300
    memory_mib: int = 1024
    """Of address space."""
    output_bytes: int = MIB
    """Of its result; as many again of what it writes to its standard output and error."""
    file_mib: int = 1024
    open_files: int = 256
    processes: int = 32
    """At a time, the first included."""


class TaskRequest(Struct, frozen=True, kw_only=True):
    """What a process is to do. It may hold secrets: it goes through a pipe, and is logged nowhere."""

    kind: Kind
    fields: msgspec.Raw
    credentials: msgspec.Raw = msgspec.Raw(b"{}")
    limits: TaskLimits = TaskLimits()
    directories: tuple[str, ...] = ()
    """What DuckDB may read and write, beside the directory of the task."""
    is_open: bool = False
    """Whether DuckDB may read and write everything, and load extensions."""

    def __repr__(self) -> str:
        return f"TaskRequest(kind={self.kind!r})"


class TaskFailure(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Why a task has failed."""

    code: str
    message: str
    retryable: bool = False


class TaskAnswer(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a task came to; a failure may have a result nonetheless."""

    result: msgspec.Raw = msgspec.Raw(b"null")
    failure: TaskFailure | None = None


class Unfit(Exception):
    """What a process of a task raises for a failure that it can name."""

    def __init__(self, code: str, message: str, *, retryable: bool = False) -> None:
        super().__init__(message)
        self.failure = TaskFailure(code=code, message=message, retryable=retryable)


def refuse_fields(message: str) -> Unfit:
    """For fields that no task can be made of; the message names the field."""
    return Unfit("BAD_FIELDS", message)


def get_first(fields: JsonObject, *names: str) -> tuple[str, JsonValue]:
    """The first of the fields that is given, and its value; the first name and None where none is."""
    return next(((name, fields[name]) for name in names if fields.get(name) is not None), (names[0], None))


def read_texts(name: str, value: JsonValue) -> list[str]:
    """A field that is a text, or a list of texts. Raises :class:`Unfit`."""
    texts = value if isinstance(value, list) else [value]
    found = [text for text in texts if isinstance(text, str) and text.strip()]
    if not found or len(found) != len(texts):
        raise refuse_fields(f"{name} must be a text, or a list of texts")
    return found
