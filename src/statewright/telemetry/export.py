"""The queue from which spans are sent, by a thread of its own.

A request only puts its spans into the queue. Whatever becomes of the collector, no request waits for it: spans for
which there is no room, or which the collector does not take, are dropped and counted.
"""

import logging
import threading
from collections import deque
from time import monotonic
from typing import Final

from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

from statewright import logs

MAX_QUEUED: Final = 2_048
"""Spans that wait to be sent."""

MAX_BATCH: Final = 512
"""Spans of one message to the collector."""

SEND_INTERVAL_S: Final = 1.0
"""Longest wait of a span until it is sent."""

REPORT_INTERVAL_S: Final = 60.0
"""Between two lines of the log on spans that were dropped."""

log = logs.logger(__name__)


class SpanQueue(SpanProcessor):
    """Sends spans to ``exporter``, at most ``limit`` of which wait."""

    def __init__(self, exporter: SpanExporter, *, limit: int = MAX_QUEUED, interval_s: float = SEND_INTERVAL_S) -> None:
        self._exporter = exporter
        self._limit = limit
        self._interval_s = interval_s
        self._waiting: deque[ReadableSpan] = deque()
        self._wake = threading.Event()
        self._sent = threading.Condition()
        self._is_closed = False
        self._is_sending = False
        self._reported_at = -REPORT_INTERVAL_S
        self._reported = 0
        self.dropped = 0
        """Spans that no collector will see."""
        # What the exporter says of every attempt is said once a minute here.
        logging.getLogger("opentelemetry").setLevel(logging.CRITICAL)
        self._thread = threading.Thread(target=self._run, name="spans", daemon=True)
        self._thread.start()

    def on_end(self, span: ReadableSpan) -> None:
        """Take a span that has ended."""
        if len(self._waiting) >= self._limit or self._is_closed:
            self.dropped += 1
            return
        self._waiting.append(span)
        if len(self._waiting) >= MAX_BATCH:
            self._wake.set()

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        """Wait until all that has ended so far is sent or dropped; whether that was in time."""
        self._wake.set()
        with self._sent:
            return self._sent.wait_for(
                lambda: not self._waiting and not self._is_sending, timeout=timeout_millis / 1000
            )

    def close(self, within_s: float) -> None:
        """Send what waits, and take nothing more. What is not sent ``within_s`` seconds is dropped."""
        self.force_flush(int(within_s * 1000))
        self._is_closed = True
        self.dropped += len(self._waiting)
        self._waiting.clear()
        self._wake.set()
        self._exporter.shutdown()
        self._thread.join(timeout=1.0)

    def _run(self) -> None:
        while not self._is_closed:
            self._wake.wait(self._interval_s)
            self._wake.clear()
            while self._waiting:
                self._is_sending = True
                try:
                    self._send([self._waiting.popleft() for _ in range(min(len(self._waiting), MAX_BATCH))])
                finally:
                    self._is_sending = False
            with self._sent:
                self._sent.notify_all()

    def _send(self, batch: list[ReadableSpan]) -> None:
        try:
            is_taken = self._exporter.export(batch) is SpanExportResult.SUCCESS
        except Exception:  # whatever it is, the next batch has its chance
            is_taken = False
        if not is_taken:
            self.dropped += len(batch)
        if self.dropped > self._reported and monotonic() - self._reported_at >= REPORT_INTERVAL_S:
            log.warning("spans_dropped", count=self.dropped - self._reported)
            self._reported, self._reported_at = self.dropped, monotonic()
