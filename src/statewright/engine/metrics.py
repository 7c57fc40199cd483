"""What the runs of one process do, told apart by model, transition, function and tags (docs/reference/metrics.md#runs).

Counted as it happens: a transition that a conflict undoes has fired, too. How many models and names are told apart is
bounded; see :mod:`statewright.telemetry.histogram`.
"""

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from time import monotonic
from typing import Final, Literal, TypeAlias

from statewright.compute.callout import CalloutKind
from statewright.entity import ModelKey
from statewright.failures import ComputeMemberDisconnected, DispatchTimeout, NoComputeMember
from statewright.telemetry.histogram import Count, Histogram, LabelTable

BOUNDS_S: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)

RetryOutcome: TypeAlias = Literal["succeeded", "failed", "out_of_time"]
"""What a repeated attempt came to; the last: the time for all attempts ended in the pause before it."""

REFUSED: Final = "refused"
"""Why a callout failed: its function said so."""

_REASONS: Final = ((NoComputeMember, "no_member"), (DispatchTimeout, "timeout"), (ComputeMemberDisconnected, "lost"))


class CalloutObservation:
    """One callout that is under way; ``refuse`` says that the function answered, and that it failed."""

    __slots__ = ("reason",)

    def __init__(self) -> None:
        self.reason: str | None = None

    def refuse(self) -> None:
        """The function has failed."""
        self.reason = REFUSED


class RunMetrics:
    """``limit``: how many sets of labels a metric has; ``models`` are those that have any, by name or ``name/version``;
    none are all.
    """

    def __init__(self, limit: int = 100, models: Collection[str] = ()) -> None:
        self._models = frozenset(models)
        self.transitions: LabelTable[Count] = LabelTable(limit, Count, self._is_wanted)
        """Fired transitions by model and name."""
        self.callouts: LabelTable[Histogram] = LabelTable(limit, lambda: Histogram(BOUNDS_S), self._is_wanted)
        """Times of callouts by model, kind, name of the function, and tags."""
        self.failures: LabelTable[Count] = LabelTable(limit, Count, self._is_wanted)
        """Failed callouts by the same, and by why."""
        self.retries: Counter[tuple[CalloutKind, str, RetryOutcome]] = Counter()
        """Repeated attempts by kind of callout, by why the one before failed, and by what they came to."""

    def count_transition(self, model: ModelKey, name: str) -> None:
        """A transition has fired."""
        self.transitions.find(f"{model.name}/{model.version}", name).value += 1

    @contextmanager
    def observe_callout(
        self, model: ModelKey, kind: CalloutKind, name: str, tags: Sequence[str]
    ) -> Iterator[CalloutObservation]:
        """Inside the block a callout is under way."""
        labels = (f"{model.name}/{model.version}", kind, name, ",".join(tags))
        observation, begun = CalloutObservation(), monotonic()
        try:
            yield observation
        except Exception as error:
            observation.reason = next((reason for failure, reason in _REASONS if isinstance(error, failure)), "error")
            raise
        finally:
            self.callouts.find(*labels).observe(monotonic() - begun)
            if observation.reason is not None:
                self.failures.find(*labels, observation.reason).value += 1

    def _is_wanted(self, labels: Sequence[str]) -> bool:
        return not self._models or labels[0] in self._models or labels[0].rpartition("/")[0] in self._models
