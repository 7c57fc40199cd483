"""Events on stdout: one line each, as ``key=value`` text or as JSON.

An event is a constant snake_case name and keys: ``log.info("member_joined", member=member.id)``. Text in a value can
neither end its line nor forge a key: it is quoted and escaped. What was bound with :func:`bind_keys` (tenant, request)
is added to every event of the same task, and so are the ids of its trace, if there is one. The records of libraries
that use :mod:`logging` come out the same way, as ``library_message``.

Level, form and stream belong to the process, so that a change reaches every log that was made before it
(docs/reference/service.md#log-level, docs/reference/service.md#logs). An event below the level costs one
comparison.
"""

import json
import logging
import re
import sys
import uuid
from collections.abc import Callable
from contextlib import AbstractContextManager
from contextvars import ContextVar
from datetime import UTC, datetime
from functools import cache
from typing import BinaryIO, Final, Literal, cast, get_args

import structlog
from msgspec import Struct
from structlog.typing import EventDict, Processor, WrappedLogger

from statewright.telemetry.tracing import get_trace

__all__ = [
    "Log",
    "LogFormat",
    "LogLevel",
    "RequestMark",
    "bind_keys",
    "configure",
    "get_level",
    "get_request_id",
    "logger",
    "request_mark",
    "set_level",
]

LogLevel = Literal["debug", "info", "warn", "error"]
LogFormat = Literal["text", "json"]

_SEVERITY: Final = {"debug": 10, "info": 20, "warn": 30, "error": 40}
_BARE_VALUE: Final = re.compile(r"[!#-&(-<>-\[\]-~]+")
"""Printable ASCII without blank, quotes, equals sign and backslash."""
_UNSAFE_IN_KEY: Final = re.compile(r"[^A-Za-z0-9_.-]+")
_JSON: Final = json.JSONEncoder(ensure_ascii=True, separators=(",", ":"), default=str)
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
    """What :func:`logger` gives. Log or raise, not both; ERROR means that an operator must act."""

    @property
    def is_verbose(self) -> bool:
        """Whether :meth:`debug` writes: to be asked where its keys take time to make."""
        return _threshold.severity <= 10

    def debug(self, event: str, **keys: object) -> None:
        """Details for following one run."""
        if _threshold.severity <= 10:
            self._proxy_to_logger("debug", event, **keys)

    def info(self, event: str, **keys: object) -> None:
        """What an operator wants to find later."""
        if _threshold.severity <= 20:
            self._proxy_to_logger("info", event, **keys)

    def warning(self, event: str, **keys: object) -> None:
        """Degraded, or a client will notice."""
        if _threshold.severity <= 30:
            self._proxy_to_logger("warn", event, **keys)

    def error(self, event: str, **keys: object) -> None:
        """An operator must act."""
        self._proxy_to_logger("error", event, **keys)

    def error_with_ticket(self, event: str, **keys: object) -> str:
        """Like :meth:`error`; a number by which the event is found, for a client who is not told the cause."""
        ticket = str(uuid.uuid4())
        self.error(event, ticket=ticket, **keys)
        return ticket

    def exception(self, event: str, **keys: object) -> None:
        """Like :meth:`error`, with the traceback of the exception being handled."""
        self._proxy_to_logger("error", event, **{"exc_info": True, **keys})


def logger(module: str) -> Log:
    """The log of a module: ``logger(__name__)``. Safe to make at import time, before :func:`configure`.

    ``structlog.get_logger(__name__)`` gives the same behind a proxy, which makes a call that is filtered out slower.
    """
    return Log(_LineWriter(module), _processors, {})


def configure(level: LogLevel, form: LogFormat, stream: BinaryIO | None = None) -> None:
    """Sends all events of the process to ``stream`` (``None``: stdout). May be called again."""
    _output.stream = stream
    _processors[-1] = _RENDERERS[form]
    # Cached loggers refer to these very objects, so the change reaches them too.
    structlog.configure(
        processors=_processors, wrapper_class=Log, logger_factory=_LineWriter, cache_logger_on_first_use=True
    )
    _route_library_logs()
    set_level(level)


def bind_keys(**keys: object) -> AbstractContextManager[object]:
    """While it lasts, ``keys`` are part of every event of this task and of the tasks it starts."""
    return structlog.contextvars.bound_contextvars(**keys)


def get_level() -> LogLevel:
    """The present level."""
    return _threshold.level


def set_level(word: str) -> LogLevel:
    """Sets the level and returns the previous one. An unknown word means ``info``; case does not matter."""
    previous = _threshold.level
    word = word.strip().lower()
    known = "warn" if word == "warning" else word
    _threshold.set(cast("LogLevel", known) if known in get_args(LogLevel) else _DEFAULT_LEVEL)
    # Debug records of libraries are never logged, not even at level debug.
    logging.getLogger().setLevel(max(_threshold.severity, logging.INFO))
    return previous


def get_request_id() -> str | None:
    """The id of the request that this task works for; None when there is none under way."""
    mark = request_mark.get()
    return (mark.id or None) if mark is not None else None


class RequestMark(Struct):
    """A request that is under way; what is logged in its tasks names it until it ends, when its ``id`` is taken away.

    Tasks that a request happens to start and that outlive it, such as those that serve all, must not go on speaking of
    it. A mark costs a fraction of what :func:`bind_keys` does.
    """

    id: str | None


request_mark: ContextVar[RequestMark | None] = ContextVar("request", default=None)
"""The request that this task works for."""


def _add_request(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    request_id = get_request_id()
    if request_id is not None:
        event["request"] = request_id
    trace = get_trace()
    if trace is not None:
        event["trace_id"], event["span_id"] = trace.trace_id, trace.span_id
    return event


MAX_VALUE_CHARS: Final = 4_096
"""Of a text in a line: clients choose what refusals say, by what they send."""
MAX_TRACEBACK_CHARS: Final = 65_536


def _cut_long_texts(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    for key, value in event.items():
        if isinstance(value, str) and len(value) > MAX_VALUE_CHARS:
            most = MAX_TRACEBACK_CHARS if key == "exception" else MAX_VALUE_CHARS
            if len(value) > most:
                event[key] = f"{value[:most]}… (of {len(value):,} characters)"
    return event


class _Output:
    """Where lines go; ``None`` is stdout."""

    stream: BinaryIO | None = None

    def write(self, line: str) -> None:
        """Write a line. Failures are ignored: losing the reader of the log must not stop the service."""
        stream = self.stream or sys.stdout.buffer
        try:
            stream.write(line.encode("utf-8", "backslashreplace") + b"\n")
            stream.flush()
        except (OSError, ValueError):  # the pipe is broken, the disk is full, or the stream was closed at exit
            return


_output = _Output()


class _LineWriter:
    """Takes the finished lines of one module from structlog."""

    def __init__(self, module: str = "") -> None:
        self.package = module.removeprefix("statewright.")

    def write(self, line: str) -> None:
        _output.write(line)

    debug = info = warn = error = write


def _stamp(log: WrappedLogger, method: str, event: EventDict) -> EventDict:
    """Time, level, name and package first, then the keys in the order they were given."""
    name = event.pop("event")
    now = datetime.now(UTC).isoformat(timespec="milliseconds")
    return {"time": f"{now[:-6]}Z", "level": method.upper(), "msg": name, "pkg": log.package, **event}


def _render_text(_logger: WrappedLogger, _method: str, event: EventDict) -> str:
    return " ".join([f"{_sanitize_key(key)}={_format_value(value)}" for key, value in event.items()])


@cache  # keys stand in the code: there are few
def _sanitize_key(key: str) -> str:
    return _UNSAFE_IN_KEY.sub("_", key)


def _render_json(_logger: WrappedLogger, _method: str, event: EventDict) -> str:
    return _JSON.encode(event)


_RENDERERS: dict[LogFormat, Processor] = {"text": _render_text, "json": _render_json}


_processors: list[Processor] = [
    structlog.contextvars.merge_contextvars,
    _add_request,
    structlog.processors.format_exc_info,
    _cut_long_texts,
    _stamp,
    _render_text,
]


def _format_value(value: object) -> str:
    """The value as one word, or in quotes. Only printable characters leave this function."""
    if value is None or isinstance(value, bool):
        return _JSON.encode(value)
    text = str(value)
    if _BARE_VALUE.fullmatch(text):
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
        return log.warning if severity >= logging.WARNING else log.info


def _route_library_logs() -> None:
    """Libraries log through the root logger only; request lines of the HTTP server are dropped, since the events of
    requests say more.
    """
    root = logging.getLogger()
    root.handlers = [handler for handler in root.handlers if not isinstance(handler, _LibraryRecords)]
    root.addHandler(_LibraryRecords())
    for name in (
        "_granian",
        "granian.access",
        "litestar",
        "grpc",
        "asyncpg",
        "asyncio",
    ):
        library = logging.getLogger(name)
        library.handlers.clear()
        library.propagate = name != "granian.access"
