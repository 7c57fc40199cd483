"""What clients do that they should not: counted by cause, and one line for many of a kind."""

from collections import Counter
from time import monotonic
from typing import Final

from statewright import logs

log = logs.logger(__name__)

QUIET_S: Final = 10.0
"""After a line about a cause its next ones are only counted for so long."""


MAX_CAUSES: Final = 1000
"""Causes that are told apart for their lines."""


class Incidents:
    """Of one port. ``counts`` has them all, by event."""

    def __init__(self) -> None:
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
        (log.warning if is_warning else log.info)(event, **keys)

    def report_unlogged(self) -> None:
        """A line for what was only counted, when the last line is some time ago; to be called now and then."""
        now = monotonic()
        for (event, cause), (until, unlogged) in list(self._quiet.items()):
            if now < until:
                continue
            del self._quiet[event, cause]
            if unlogged:
                log.info(event, unlogged=unlogged)
