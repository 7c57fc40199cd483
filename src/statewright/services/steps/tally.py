"""What the step engine counts, in plain numbers (spec/step-engine.md §22); ``api.metrics`` makes metrics of them."""

from bisect import bisect_left
from collections import Counter, defaultdict
from typing import Final

LATENCY_BUCKETS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""Seconds; upper bounds, inclusive."""


class Histogram:
    """Observations in seconds."""

    __slots__ = ("counts", "sum")

    def __init__(self) -> None:
        self.counts = [0] * (len(LATENCY_BUCKETS) + 1)
        self.sum = 0.0

    def observe(self, seconds: float) -> None:
        """One observation."""
        self.counts[bisect_left(LATENCY_BUCKETS, seconds)] += 1
        self.sum += seconds


class Tally:
    """Counters since the start of the process."""

    def __init__(self) -> None:
        self.definitions_uploaded = 0
        self.instances_started = 0
        self.instances_ended: Counter[str] = Counter()
        """By outcome: completed, failed, cancelled."""
        self.steps_executed: Counter[str] = Counter()
        """Entries into steps, by step type."""
        self.job_retries = 0
        self.leases_expired = 0
        self.conflicts = 0
        """Advances that had to be computed again because another process was faster."""
        self.pickup = Histogram()
        """From the creation of a job to its claim."""
        self.polls = Histogram()
        self.transactions: defaultdict[str, Histogram] = defaultdict(Histogram)
        """Time to commit, by kind, as ``instance.start``."""
        self.waits: defaultdict[str, Histogram] = defaultdict(Histogram)
        """Time until somebody got at an instance, or at the queue."""
