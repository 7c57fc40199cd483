"""What a worker says a run of a pipeline came to, and before that how far it is (the form is that of ``dispatch``).

Keeping secrets out of what is reported and stored.
"""

from base64 import b64encode
from collections.abc import Iterator
from typing import Final

from msgspec import Struct

from statewright.jsonval.codec import encode
from statewright.jsonval.values import JsonObject, JsonValue, is_whole, tidy_numbers
from statewright.playbooks.context import is_key

MAX_PATCHES: Final = 10_000
MAX_LOG_ENTRIES: Final = 10_000
LOGGED: Final = frozenset(
    {
        "step.started",
        "loop.iteration.started",
        "task.started",
        "task.attempt.started",
        "task.attempt.done",
        "task.attempt.failed",
        "task.done",
        "task.failed",
        "policy.task.evaluated",
        "log.cut",
    }
)
"""The events that a worker can report."""


class UnusableCompletion(ValueError):
    """A result of a job that is no completion of a run; the text names the member."""


PAUSED: Final = "paused"
"""The status of a run that is given back for a task, to go on behind it."""
MAX_PAUSE_BYTES: Final = 1024 * 1024
"""Of what such a run keeps."""


class PauseRequest(Struct, frozen=True, kw_only=True):
    """Why a run is given back, and where it is to go on."""

    fields: JsonObject
    """Of the task."""
    counter: int
    """Its place in the pipeline."""
    state: JsonObject
    visits: JsonObject
    entries: int
    """Of its log so far."""


class Completion(Struct, frozen=True, kw_only=True):
    """The end of a run, or that it pauses."""

    pause: PauseRequest | None = None

    error: "JsonObject | None"
    """``None``: it ended well."""
    result: JsonValue
    patches: tuple[tuple[str, JsonValue], ...]
    """Keys of ``ctx``, names with dots between them, and their values."""
    places: tuple[int, ...]
    """Of each patch, how many entries of the log were made before it."""
    log: tuple[JsonObject, ...]
    logged_before: int = 0
    """How many of them the service has acknowledged before."""


class RunReport(Struct, frozen=True, kw_only=True):
    """What a run has done since its last report."""

    patches: tuple[tuple[str, JsonValue], ...]
    places: tuple[int, ...]
    """Of each patch, how many entries of the whole log were made before it."""
    first_patch: int
    """How many patches the run made before."""
    log: tuple[JsonObject, ...]
    first_entry: int
    """How many entries its log had before."""


def read_report(given: JsonValue) -> RunReport:
    """A report. Raises :class:`UnusableCompletion`."""
    if not isinstance(given, dict):
        raise UnusableCompletion("progress must be an object")
    tidied = tidy_numbers(given)
    patches = [_read_patch(patch) for patch in _read_list(tidied, "patches", MAX_PATCHES)]
    return RunReport(
        patches=tuple((key, value) for key, value, _ in patches),
        places=tuple(place for _, _, place in patches),
        first_patch=_read_count(tidied, "from"),
        log=tuple(_read_entry(entry) for entry in _read_list(tidied, "log", MAX_LOG_ENTRIES)),
        first_entry=_read_count(tidied, "logFrom"),
    )


def _read_count(given: JsonObject, name: str) -> int:
    value = given.get(name, 0)
    if not is_whole(value) or not 0 <= value <= MAX_LOG_ENTRIES:
        raise UnusableCompletion(f"{name} must be a number from 0 to {MAX_LOG_ENTRIES}")
    return value


def read_completion(given: JsonValue) -> Completion:
    """A completion. Raises :class:`UnusableCompletion`."""
    if not isinstance(given, dict) or given.get("status") not in ("ok", "error", PAUSED):
        raise UnusableCompletion(f'status must be "ok", "error" or "{PAUSED}"')
    tidied = tidy_numbers(given)
    error = tidied.get("error")
    if tidied["status"] == "error":
        if not isinstance(error, dict) or not isinstance(error.get("kind"), str):
            raise UnusableCompletion("error must be an object with a kind")
    else:
        error = None
    patches = [_read_patch(patch) for patch in _read_list(tidied, "patches", MAX_PATCHES)]
    return Completion(
        pause=_read_pause(tidied.get("pause")) if tidied["status"] == PAUSED else None,
        error=error,
        result=tidied.get("result"),
        patches=tuple((key, value) for key, value, _ in patches),
        places=tuple(place for _, _, place in patches),
        log=tuple(_read_entry(entry) for entry in _read_list(tidied, "log", MAX_LOG_ENTRIES)),
        logged_before=_read_count(tidied, "logged"),
    )


def _read_pause(given: JsonValue) -> PauseRequest:
    fields, state, visits, entries = (
        given.get(name) if isinstance(given, dict) else None for name in ("fields", "state", "visits", "entries")
    )
    if not isinstance(fields, dict) or not isinstance(state, dict) or not is_whole(counter := state.get("counter")):
        raise UnusableCompletion("pause must have fields, and a state with a counter")
    if (size := len(encode([fields, state, visits]))) > MAX_PAUSE_BYTES:
        raise UnusableCompletion(f"pause has {size} bytes, of {MAX_PAUSE_BYTES} at most")
    return PauseRequest(
        fields=fields,
        counter=counter,
        state=state,
        visits=visits if isinstance(visits, dict) else {},
        entries=entries if is_whole(entries) else 0,
    )


def _read_list(given: JsonObject, name: str, most: int) -> list[JsonValue]:
    value = given.get(name)
    if value is None:
        return []
    if not isinstance(value, list):
        raise UnusableCompletion(f"{name} must be a list")
    if len(value) > most:
        raise UnusableCompletion(f"{name} has {len(value)} entries, of {most} at most")
    return value


def _read_patch(given: JsonValue) -> tuple[str, JsonValue, int]:
    path = given.get("path") if isinstance(given, dict) else None
    names = [name for name in path if isinstance(name, str)] if isinstance(path, list) else []
    key = ".".join(names)
    if not isinstance(given, dict) or not isinstance(path, list) or len(names) != len(path) or not is_key(key):
        raise UnusableCompletion("each of patches must have a path, a list of names")
    place = given.get("at")
    return key, given.get("value"), place if isinstance(place, int) and place >= 0 else 0


def _read_entry(given: JsonValue) -> JsonObject:
    if not isinstance(given, dict) or given.get("event") not in LOGGED:
        raise UnusableCompletion("each entry of log must name an event that workers report")
    return given


MASK: Final = "***"
MIN_SECRET_CHARS: Final = 6
"""Shorter texts of a credential are no secrets worth the name, and would be found everywhere."""


def list_secrets(keychain: JsonValue) -> tuple[str, ...]:
    """The texts of resolved credentials, the longest first."""
    return tuple(sorted(set(_walk(keychain)), key=lambda text: (-len(text), text)))


def mask(value: JsonValue, secrets: tuple[str, ...]) -> JsonValue:
    """The value with every secret in its texts and names replaced. The same object where there are no secrets."""
    if not secrets:
        return value
    if isinstance(value, str):
        for secret in secrets:
            value = value.replace(secret, MASK)
        return value
    if isinstance(value, dict):
        return {str(mask(name, secrets)): mask(member, secrets) for name, member in value.items()}
    if isinstance(value, list):
        return [mask(item, secrets) for item in value]
    return value


def _walk(value: JsonValue) -> Iterator[str]:
    if isinstance(value, str):
        if len(value) >= MIN_SECRET_CHARS:
            yield value
    elif isinstance(value, dict | list):
        if isinstance(value, dict) and isinstance(value.get("password"), str):
            pair = f"{value.get('username')}:{value['password']}"
            yield b64encode(pair.encode()).decode()  # as servers that show what they were sent have it
        for part in value.values() if isinstance(value, dict) else value:
            yield from _walk(part)
