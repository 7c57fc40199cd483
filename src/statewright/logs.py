"""Events on stdout: one line each, as ``key=value`` text or as JSON.

An event is a constant snake_case name and keys: ``LOG.info("member_joined", member=member.id)``. Text in a value can
neither end its line nor forge a key: it is quoted and escaped. What was bound with :func:`bound` (tenant, request) is
added to every event of the same task. The records of libraries that use :mod:`logging` come out the same way, as
``library_message``.

Level, form and stream belong to the process, so that a change reaches every log that was made before it
(spec/auth-and-operations.md §21, §28.1). An event below the level costs a comparison: no key is looked at.
"""

import json
import logging
import re
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from functools import cache
from typing import BinaryIO, cast, get_args

import structlog
from structlog.typing import EventDict, Processor, WrappedLogger

from statewright.settings.table import LogFormat, LogLevel

__all__ = ["Log", "bound", "configure", "level", "logger", "set_level"]

_SEVERITY = {"debug": 10, "info": 20, "warn": 30, "error": 40}
_OFTEN_BARE = re.compile(r"[!#-&(-<>-\[\]-~]+")
"""Printable ASCII without blank, quotes, equals sign and backslash."""
_UNSAFE_IN_KEY = re.compile(r"[^A-Za-z0-9_.-]+")
_JSON = json.JSONEncoder(ensure_ascii=True, separators=(",", ":"), default=str)
_DEFAULT_LEVEL: LogLevel = "info"


class _Threshold:
    """The least severity that is logged."""

    __slots__ = ("level", "severity")

    def __init__(self) -> None:
        self.set(_DEFAULT_LEVEL)

    def set(self, level: LogLevel) -> None:
        self.level: LogLevel = level
        self.severity = _SEVERITY[level]


_threshold = _Threshold()


class Log(structlog.BoundLoggerBase):
    """What :func:`logger` gives. Log or raise, not both; ERROR means that somebody must act."""

    def debug(self, event: str, **keys: object) -> None:
        """For whoever follows one run in detail."""
        if _threshold.severity <= 10:
            self._proxy_to_logger("debug", event, **keys)

    def info(self, event: str, **keys: object) -> None:
        """What an operator wants to find later."""
        if _threshold.severity <= 20:
            self._proxy_to_logger("info", event, **keys)

    def warn(self, event: str, **keys: object) -> None:
        """Degraded, or a client will notice."""
        if _threshold.severity <= 30:
            self._proxy_to_logger("warn", event, **keys)

    warning = warn

    def error(self, event: str, **keys: object) -> None:
        """Somebody must act."""
        self._proxy_to_logger("error", event, **keys)

    critical = error

    def exception(self, event: str, **keys: object) -> None:
        """Like :meth:`error`, with the traceback of the exception being handled."""
        self._proxy_to_logger("error", event, **{"exc_info": True, **keys})


def logger(module: str) -> Log:
    """The log of a module: ``logger(__name__)``. Safe to make at import time, before :func:`configure`.

    ``structlog.get_logger(__name__)`` gives the same behind a proxy, which makes a call that is filtered out slower.
    """
    return Log(_Lines(module), _processors, {})


def configure(level: LogLevel, form: LogFormat, stream: BinaryIO | None = None) -> None:
    """Sends all events of the process to ``stream`` (``None``: stdout). May be called again."""
    _output.stream = stream
    _processors[-1] = _RENDERERS[form]
    # What the caches of proxies hold on to are the very objects that are changed here.
    structlog.configure(
        processors=_processors, wrapper_class=Log, logger_factory=_Lines, cache_logger_on_first_use=True
    )
    _route_libraries()
    set_level(level)


def bound(**keys: object) -> AbstractContextManager[object]:
    """While it lasts, ``keys`` are part of every event of this task and of the tasks it starts."""
    return structlog.contextvars.bound_contextvars(**keys)


def level() -> LogLevel:
    """The level in force."""
    return _threshold.level


def set_level(word: str) -> LogLevel:
    """Puts a level in force and gives the previous one. An unknown word means ``info``; case does not matter."""
    previous = _threshold.level
    word = word.strip().lower()
    known = "warn" if word == "warning" else word
    _threshold.set(cast("LogLevel", known) if known in get_args(LogLevel) else _DEFAULT_LEVEL)
    # The detail of libraries is never wanted, not even when ours is.
    logging.getLogger().setLevel(max(_threshold.severity, logging.INFO))
    return previous


class _Output:
    """Where lines go; ``None`` is stdout."""

    stream: BinaryIO | None = None

    def write(self, line: str) -> None:
        """Losing the reader of the log must not stop the service."""
        stream = self.stream or sys.stdout.buffer
        try:
            stream.write(line.encode("utf-8", "backslashreplace") + b"\n")
            stream.flush()
        except (OSError, ValueError):  # the pipe is broken, the disk is full, or the stream was closed at exit
            return


_output = _Output()


class _Lines:
    """What structlog hands the finished lines of one module to."""

    def __init__(self, module: str = "") -> None:
        self.package = module.removeprefix("statewright.")

    def write(self, line: str) -> None:
        _output.write(line)

    debug = info = warn = error = write


def _stamped(log: WrappedLogger, method: str, event: EventDict) -> EventDict:
    """Time, level, name and package first, then the keys in the order they were given."""
    name = event.pop("event")
    now = datetime.now(UTC).isoformat(timespec="milliseconds")
    return {"time": f"{now[:-6]}Z", "level": method.upper(), "msg": name, "pkg": log.package, **event}


def _as_text(_logger: WrappedLogger, _method: str, event: EventDict) -> str:
    return " ".join([f"{_safe(key)}={_shown(value)}" for key, value in event.items()])


@cache  # keys stand in the code: there are few
def _safe(key: str) -> str:
    return _UNSAFE_IN_KEY.sub("_", key)


def _as_json(_logger: WrappedLogger, _method: str, event: EventDict) -> str:
    return _JSON.encode(event)


_RENDERERS: dict[LogFormat, Processor] = {"text": _as_text, "json": _as_json}


_processors: list[Processor] = [
    structlog.contextvars.merge_contextvars,
    structlog.processors.format_exc_info,
    _stamped,
    _as_text,
]


def _shown(value: object) -> str:
    """The value as one word, or in quotes. Only printable characters leave this function."""
    if value is None or isinstance(value, bool):
        return _JSON.encode(value)
    text = str(value)
    if _OFTEN_BARE.fullmatch(text):
        return text
    if text.isprintable():
        return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
    return _JSON.encode(text).replace("\x7f", "\\u007f")


class _LibraryRecords(logging.Handler):
    """Gives the records of :mod:`logging` to our own log."""

    def emit(self, record: logging.LogRecord) -> None:
        try:
            write = self._method(logger(record.name), record.levelno)
            write("library_message", text=record.getMessage(), exc_info=record.exc_info)
        except Exception:  # a record that cannot be formatted is its library's fault, not that of the work under way
            self.handleError(record)

    @staticmethod
    def _method(log: Log, severity: int) -> Callable[..., None]:
        if severity >= logging.ERROR:
            return log.error
        return log.warn if severity >= logging.WARNING else log.info


def _route_libraries() -> None:
    """Libraries log through the root logger only; request lines of the HTTP server are dropped, ours say more."""
    root = logging.getLogger()
    root.handlers = [handler for handler in root.handlers if not isinstance(handler, _LibraryRecords)]
    root.addHandler(_LibraryRecords())
    for name in (
        "uvicorn",
        "uvicorn.error",
        "uvicorn.access",
        "uvicorn.asgi",
        "litestar",
        "grpc",
        "asyncpg",
        "asyncio",
    ):
        library = logging.getLogger(name)
        library.handlers.clear()
        library.propagate = name != "uvicorn.access"
