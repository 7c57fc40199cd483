"""The worker: a node whose kinds of tasks are processes of their own (docs/guides/tools.md)."""

import asyncio
import importlib.util
import logging
import re
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Final, TypeAlias, cast

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from statewright.jsonval.codec import MalformedJson, decode, encode
from statewright.jsonval.values import JsonObject, JsonValue
from statewright.playbooks.completions import list_secrets, mask
from statewright.playbooks.policies import Outcome, fail, succeed
from statewright.sdk import Node, TaskCall
from statewright.sdk.pipelines import send_http
from statewright.tools.requests import GuardedTransport
from statewright.tools.tasks import KINDS, Kind, TaskAnswer, TaskFailure, TaskLimits, TaskRequest

SAFE_KINDS: Final[tuple[Kind, ...]] = ("postgres", "duckdb", "http")
"""Those that run no programs: done unless others are named."""
DEFAULT_LEASE: Final = timedelta(seconds=15)
"""Short, so that the tasks of a worker that is gone are soon done by another, and a cancellation is soon noticed."""
DEFAULT_CONCURRENCY: Final = 4

_KEPT_VARIABLES: Final = ("PATH", "LANG", "LC_ALL", "TZ", "TMPDIR")
"""What processes of tasks have of the environment of the worker, whatever it is started with."""
_LIBRARIES: Final[Mapping[Kind, str]] = {"postgres": "asyncpg", "duckdb": "duckdb"}
_FILE_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}")
"""Of a credential."""
_MAX_CREDENTIAL_CHARS: Final = 65_536
_GUARD: Final = "statewright.tools.guard"
_END_S: Final = 5.0
"""How long a guard that was told to end may take before it is killed."""

Fields: TypeAlias = dict[str, object]
"""Those of a task, which are JSON: the SDK cannot resolve the annotation of that in the modules of others."""

log = logging.getLogger("statewright.tools")


class ToolsNotInstalled(Exception):
    """The libraries of a kind are missing."""


class UnusableTools(ValueError):
    """What the worker was told to do makes no sense; the message names it."""


class ToolSettings(Struct, frozen=True, kw_only=True):
    """What the worker does, and what it lets tasks have."""

    kinds: tuple[Kind, ...] = SAFE_KINDS
    limits: TaskLimits = TaskLimits()
    environment: Mapping[str, str] = {}
    """The whole environment of processes of tasks."""
    secrets: tuple[str, ...] = ()
    """Texts that are masked in all that tasks come to."""
    directories: tuple[str, ...] = ()
    """What DuckDB may read and write."""
    is_open: bool = False
    """Whether DuckDB may read and write everything."""
    credentials: str | None = None
    """The directory of the worker's own; None: it has none."""
    concurrency: int = DEFAULT_CONCURRENCY
    lease: timedelta = DEFAULT_LEASE


def read_kinds(text: str) -> tuple[Kind, ...]:
    """The kinds that a text names, separated by commas. Raises :class:`UnusableTools`."""
    wanted = dict.fromkeys(name.strip() for name in text.split(",") if name.strip())
    unknown = [name for name in wanted if name not in KINDS]
    if unknown or not wanted:
        raise UnusableTools(f"--kinds: {', '.join(unknown) or 'nothing'} is none of {', '.join(KINDS)}")
    return tuple(kind for kind in KINDS if kind in wanted)


def choose_environment(environment: Mapping[str, str], names: Sequence[str]) -> dict[str, str]:
    """What processes of tasks have of an environment: the usual, and what is named. Raises :class:`UnusableTools`."""
    missing = [name for name in names if name not in environment]
    if missing:
        raise UnusableTools(f"--env: {', '.join(missing)} is not in the environment")
    return {name: environment[name] for name in (*_KEPT_VARIABLES, *names) if name in environment}


def find_directories(option: str, given: Sequence[Path]) -> tuple[str, ...]:
    """The absolute paths of the directories of an option. Raises :class:`UnusableTools`."""
    unusable = [str(path) for path in given if not path.is_dir()]
    if unusable:
        raise UnusableTools(f"{option}: {', '.join(unusable)} is no directory")
    return tuple(str(path.resolve()) for path in given)


def build_node(settings: ToolSettings) -> Node:
    """The node that does the kinds. Raises :class:`ToolsNotInstalled`."""
    for kind in settings.kinds:
        library = _LIBRARIES.get(kind)
        if library is not None and importlib.util.find_spec(library) is None:
            raise ToolsNotInstalled(
                f"{kind} needs {library}, which is not installed here: pip install 'statewright[tools]'"
            )
    node = Node((), concurrency=settings.concurrency, lease=settings.lease)
    for kind in settings.kinds:
        node.task_kind(kind)(_make_runner(kind, settings))
    return node


def _make_runner(kind: Kind, settings: ToolSettings) -> Callable[[Fields, TaskCall], Awaitable[Outcome]]:
    async def run(fields: Fields, call: TaskCall) -> Outcome:
        given = cast("JsonObject", fields)
        own = await asyncio.to_thread(read_credentials, settings.credentials, given.get("auth"))
        credentials: JsonObject = {**own, **call.credentials}
        if kind == "http":
            outcome = await send_http(given, credentials, transport=GuardedTransport())
        else:
            outcome = await _run_task(kind, given, credentials, settings)
        log.info("task_done kind=%s key=%s code=%s", kind, call.key, (outcome.error or {}).get("code", outcome.status))
        return _mask_outcome(outcome, (*settings.secrets, *list_secrets(credentials), *_list_passwords(credentials)))

    return run


async def _run_task(kind: Kind, fields: JsonObject, credentials: JsonObject, settings: ToolSettings) -> Outcome:
    request = TaskRequest(
        kind=kind,
        fields=msgspec.Raw(encode(fields)),
        credentials=msgspec.Raw(
            encode(credentials if kind == "postgres" else {})
        ),  # others could read what they need not
        limits=settings.limits,
        directories=settings.directories,
        is_open=settings.is_open,
    )
    return _read_answer(await run_in_process(request, settings.environment))


def read_credentials(directory: "str | None", auth: JsonValue) -> JsonObject:
    """The worker's own credentials, of those that ``auth`` of a task names: files with a JSON object, or a text."""
    inner = [value for value in auth.values() if isinstance(value, dict)] if isinstance(auth, dict) else []
    texts = [text for one in (auth, *inner) if isinstance(one, dict) for text in one.values()]
    found: JsonObject = {}
    for name in (auth, *texts) if directory is not None else ():
        if not isinstance(name, str) or not _FILE_NAME.fullmatch(name):
            continue
        with suppress(OSError, UnicodeDecodeError), Path(str(directory), name).open(encoding="utf-8") as file:
            text = file.read(_MAX_CREDENTIAL_CHARS).strip()
            try:
                found[name] = decode(text)
            except MalformedJson:
                found[name] = text
    return found


def _list_passwords(credentials: JsonValue) -> tuple[str, ...]:
    """The passwords within addresses: a message may quote them without the rest."""
    addresses = [text for text in list_secrets(credentials) if "://" in text and "@" in text]
    found = [text.partition("://")[2].rpartition("@")[0].partition(":")[2] for text in addresses]
    return list_secrets(list[JsonValue](found))


def _read_answer(answer: TaskAnswer) -> Outcome:
    try:
        result = decode(bytes(answer.result))
    except MalformedJson as malformed:
        return fail("tool", f"the result cannot be kept: {malformed}", code="BAD_RESULT", retryable=False)
    failure = answer.failure
    if failure is None:
        return succeed(result)
    kind = "timeout" if failure.code == "TIME_LIMIT" else "tool"
    return fail(kind, failure.message, code=failure.code, retryable=failure.retryable, result=result)


def _mask_outcome(outcome: Outcome, secrets: tuple[str, ...]) -> Outcome:
    return replace(
        outcome,
        result=mask(outcome.result, secrets),
        error=cast("JsonObject | None", mask(outcome.error, secrets)),
        http=cast("JsonObject | None", mask(outcome.http, secrets)),
    )


async def run_in_process(request: TaskRequest, environment: Mapping[str, str]) -> TaskAnswer:
    """What a task comes to. Nothing of it is left when this returns or is cancelled."""
    command = (sys.executable, "-I", "-m", _GUARD)
    process = await asyncio.create_subprocess_exec(
        *command,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        env=dict(environment),
        start_new_session=True,  # or Ctrl-C would reach tasks, which the worker lets finish
    )
    assert process.stdin is not None and process.stdout is not None  # noqa: S101, PT018 - they are pipes
    try:
        with suppress(ConnectionError):
            process.stdin.write(msgspec.json.encode(request) + b"\n")
            await process.stdin.drain()
        answered = await process.stdout.read()
    finally:
        process.stdin.close()
        await asyncio.shield(_wait_for_end(process))
    try:
        return msgspec.json.decode(answered, type=TaskAnswer)
    except msgspec.DecodeError:
        message = f"the process that watches over the task ended with {process.returncode}"
        return TaskAnswer(failure=TaskFailure(code="KILLED", message=message, retryable=True))


async def _wait_for_end(process: "asyncio.subprocess.Process") -> None:
    try:
        async with asyncio.timeout(_END_S):
            await process.wait()
    except TimeoutError:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()


def run(settings: ToolSettings, *, url: str | None = None) -> None:
    """Do tasks until a signal says to stop. Raises :class:`ToolsNotInstalled`, and what ``Node.run`` does."""
    build_node(settings).run(api=url)
