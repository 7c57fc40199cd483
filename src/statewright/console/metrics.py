"""What the console has answered, apart from the requests of the API (docs/reference/metrics.md)."""

from collections import Counter, defaultdict


class ConsoleMetrics:
    """Plain numbers of one process."""

    def __init__(self) -> None:
        self.answers: Counter[tuple[str, int]] = Counter()
        """Answers by route and status."""
        self.seconds: defaultdict[str, float] = defaultdict(float)
        """Time that they took, by route."""

    def observe(self, route: str, status: int, seconds: float) -> None:
        """Count one answer."""
        self.answers[route, status] += 1
        self.seconds[route] += seconds
