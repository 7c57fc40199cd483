"""What clients do that they should not: counted by cause, and one line for many of a kind; and where lines go.

An event is a constant name and keys. Who keeps a structured log hands it over as it is.
"""

import logging
from collections import Counter
from time import monotonic
from typing import Final, Protocol

QUIET_S: Final = 10.0
"""After a line about a cause its next ones are only counted for so long."""

MAX_CAUSES: Final = 1000
"""Causes that are told apart for their lines."""


class EventLog(Protocol):
    """What a server needs of a log."""

    def debug(self, event: str, **keys: object) -> None:
        """For those who follow one connection."""
        ...

    def info(self, event: str, **keys: object) -> None:
        """A client did what it should not, or had to go."""
        ...

    def warning(self, event: str, **keys: object) -> None:
        """The same, where an operator should know."""
        ...

    def exception(self, event: str, **keys: object) -> None:
        """A fault of the server or of a servicer, with the traceback of the exception being handled."""
        ...


class StandardLog:
    """Events as records of :mod:`logging`, of the logger ``grpc_h2``."""

    def __init__(self) -> None:
        self._logger = logging.getLogger("grpc_h2")

    def debug(self, event: str, **keys: object) -> None:
        self._logger.debug("%s %r", event, keys)

    def info(self, event: str, **keys: object) -> None:
        self._logger.info("%s %r", event, keys)

    def warning(self, event: str, **keys: object) -> None:
        self._logger.warning("%s %r", event, keys)

    def exception(self, event: str, **keys: object) -> None:
        self._logger.exception("%s %r", event, keys)


class Incidents:
    """Of one port. ``counts`` has them all, by event. What else the server has to say goes to the same ``log``."""

    def __init__(self, log: EventLog | None = None) -> None:
        self.log: EventLog = log or StandardLog()
        self.counts: Counter[str] = Counter()
        self._quiet: dict[tuple[str, str], tuple[float, int]] = {}
        """Event and cause → until when it is only counted, and how many were."""

    def report(self, event: str, *, cause: str = "", is_warning: bool = False, **keys: object) -> None:
        """One line, unless there was one of the same event and ``cause`` a moment ago; with ``unlogged`` when some
        were only counted.
        """
        self.counts[event] += 1
        until, unlogged = self._quiet.get((event, cause), (0.0, 0))
        now = monotonic()
        if now < until:
            self._quiet[event, cause] = until, unlogged + 1
            return
        if len(self._quiet) >= MAX_CAUSES:
            self._quiet.clear()
        self._quiet[event, cause] = now + QUIET_S, 0
        if unlogged:
            keys["unlogged"] = unlogged
        (self.log.warning if is_warning else self.log.info)(event, **keys)

    def report_unlogged(self) -> None:
        """A line for what was only counted, when the last line is some time ago; to be called now and then."""
        now = monotonic()
        for (event, cause), (until, unlogged) in list(self._quiet.items()):
            if now < until:
                continue
            del self._quiet[event, cause]
            if unlogged:
                self.log.info(event, unlogged=unlogged)
