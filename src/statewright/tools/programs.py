"""What the process of a task does (docs/guides/tools.md#kinds): it is the task's own, and ends with it."""

import asyncio
import base64
import binascii
import importlib
import inspect
import linecache
import os
import sys
import traceback
from collections.abc import Awaitable, Callable, Mapping
from datetime import timedelta
from typing import Final, NoReturn, cast

import msgspec

from statewright.jsonval.codec import decode
from statewright.jsonval.values import JsonObject, JsonValue
from statewright.tools.tasks import (
    Kind,
    TaskAnswer,
    TaskFailure,
    TaskRequest,
    Unfit,
    get_first,
    read_texts,
    refuse_fields,
)

CODE_FILE: Final = "<code of the task>"
WHOLE_ARGUMENT: Final = ("input_data", "input", "args", "data", "context")
"""Names by which ``main`` asks for all arguments at once, if there is none of that name."""


def run(request: TaskRequest) -> TaskAnswer:
    """Do a task. A task of the shell does not return: its process becomes the shell."""
    try:
        return TaskAnswer(result=msgspec.Raw(_RUNNERS[request.kind](request)))
    except Unfit as unfit:
        return TaskAnswer(failure=unfit.failure)
    except MemoryError:
        message = f"the task needs more than {request.limits.memory_mib} MiB of memory"
        return TaskAnswer(failure=TaskFailure(code="MEMORY_LIMIT", message=message))


def run_python(request: TaskRequest) -> bytes:
    """What ``main`` returns, or the variable ``result`` where the code has no ``main``, as JSON."""
    fields = cast("dict[str, object]", msgspec.json.decode(request.fields))
    arguments = _read_arguments(fields)
    names: dict[str, object] = {"__name__": "__main__", **arguments, **_import_libraries(fields.get("libs"))}
    code = _read_code(fields)
    linecache.cache[CODE_FILE] = (len(code), None, code.splitlines(keepends=True), CODE_FILE)
    try:
        exec(compile(code, CODE_FILE, "exec"), names)  # noqa: S102 - the code of the task, in a process of its own
        main = names.get("main")
        result = _call_main(main, arguments) if callable(main) else names.get("result")
        return _RESULT.encode(result)
    except (MemoryError, Unfit):
        raise
    except BaseException as error:  # whatever the code raises fails the task
        raise Unfit("PYTHON_ERROR", _explain_error(error)) from error


def _read_code(fields: Mapping[str, object]) -> str:
    code, encoded = fields.get("code"), fields.get("code_b64")
    if isinstance(encoded, str) and code is None:
        try:
            return base64.b64decode(encoded, validate=True).decode()
        except (binascii.Error, UnicodeDecodeError) as error:
            raise refuse_fields("code_b64 must be text in UTF-8, in Base64") from error
    if not isinstance(code, str) or not code.strip():
        raise refuse_fields("code must be the text of a program in Python")
    return code


def _read_arguments(fields: Mapping[str, object]) -> dict[str, object]:
    """Those of ``args``, ``input`` and ``with`` together, later ones first."""
    arguments: dict[str, object] = {}
    for name in ("args", "input", "with"):
        given = fields.get(name)
        if given is None:
            continue
        if not isinstance(given, dict):
            raise refuse_fields(f"{name} must be a mapping of arguments")
        arguments |= {str(key): value for key, value in given.items()}
    return arguments


def _import_libraries(given: object) -> dict[str, object]:
    """``libs``: modules by the names that the code has for them, or a list of them."""
    if given is None:
        return {}
    wanted = (
        given if isinstance(given, dict) else {str(name): name for name in given} if isinstance(given, list) else {}
    )
    try:
        return {str(alias): importlib.import_module(str(name or alias)) for alias, name in wanted.items()}
    except ImportError as error:
        raise Unfit("PYTHON_ERROR", f"libs: {error}") from error


def _call_main(main: Callable[..., object], arguments: Mapping[str, object]) -> object:
    """Call it with the arguments that it has parameters for."""
    parameters = inspect.signature(main).parameters.values()
    named = [one for one in parameters if one.kind not in (one.VAR_POSITIONAL, one.VAR_KEYWORD)]
    missing = [one.name for one in named if one.default is one.empty and one.name not in arguments]
    if len(named) == 1 and missing and missing[0] in WHOLE_ARGUMENT:
        returned = main(dict(arguments))
    elif missing:
        raise refuse_fields(f"args must have {', '.join(missing)}, which main takes")
    else:
        takes_all = any(one.kind is one.VAR_KEYWORD for one in parameters)
        positional = [arguments[one.name] for one in named if one.kind is one.POSITIONAL_ONLY and one.name in arguments]
        known = {one.name for one in named if one.kind is not one.POSITIONAL_ONLY}
        given = {name: value for name, value in arguments.items() if takes_all or name in known}
        returned = main(*positional, **given)
    return asyncio.run(_wait_for(returned)) if inspect.isawaitable(returned) else returned


async def _wait_for(returned: Awaitable[object]) -> object:
    return await returned


def _write_other(value: object) -> object:
    """What JSON has no form for: numbers and arrays of numpy and their like, and rows of tables."""
    if isinstance(value, timedelta):
        return value.total_seconds()
    for name, arguments in (("to_dict", ("records",)), ("tolist", ()), ("item", ())):
        if callable(method := getattr(value, name, None)):
            return method(*arguments)
    raise TypeError(f"the result is no JSON: it has a {type(value).__name__}")


_RESULT: Final = msgspec.json.Encoder(enc_hook=_write_other, decimal_format="number")


def _explain_error(error: BaseException) -> str:
    """The exception, and the line of the code where it was raised."""
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == CODE_FILE]
    line = error.lineno if isinstance(error, SyntaxError) else lines[-1] if lines else None
    text = error.msg if isinstance(error, SyntaxError) else str(error)
    where = f" (line {line} of code)" if line else ""
    return f"{type(error).__name__}: {text}{where}" if text else f"{type(error).__name__}{where}"


def run_shell(request: TaskRequest) -> NoReturn:
    """Become a shell that runs the commands one after the other, until one fails."""
    fields = _read_fields(request)
    commands = read_texts(*get_first(fields, "command", "cmd", "commands", "cmds"))
    variables = fields.get("env") or {}
    if not isinstance(variables, dict) or not all(isinstance(value, str | int) for value in variables.values()):
        raise refuse_fields("env must be a mapping of texts")
    environment = {**os.environ, **{name: str(value) for name, value in variables.items()}}
    sys.stdout.flush()
    os.execve("/bin/sh", ["sh", "-e", "-c", "\n".join(commands)], environment)  # noqa: S606 - that is the task


def run_postgres(request: TaskRequest) -> bytes:
    """What the statements returned, as JSON."""
    from statewright.tools.postgres import run_statements

    return run_statements(_read_fields(request), _read_credentials(request))


def run_duckdb(request: TaskRequest) -> bytes:
    """What the statements returned, as JSON."""
    from statewright.tools.duck import run_statements

    return run_statements(_read_fields(request), request)


def _read_fields(request: TaskRequest) -> JsonObject:
    fields = decode(bytes(request.fields))
    return fields if isinstance(fields, dict) else {}


def _read_credentials(request: TaskRequest) -> JsonObject:
    found: JsonValue = decode(bytes(request.credentials))
    return found if isinstance(found, dict) else {}


_RUNNERS: Final[Mapping[Kind, Callable[[TaskRequest], bytes]]] = {
    "python": run_python,
    "shell": run_shell,
    "postgres": run_postgres,
    "duckdb": run_duckdb,
}
