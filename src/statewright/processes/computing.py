"""Operations on instances as computations of another process, which compiles definitions for itself.

What is sent is how to come by a process, not the process: its language and the text that is stored. What was compiled
is remembered, since the next operation is often one of the same definition.
"""

from collections.abc import Callable, Mapping
from hashlib import sha256
from typing import Final, Generic, TypeVar, cast

from msgspec import Struct

from statewright.jsonval.values import JsonValue
from statewright.loop.lru import LruCache
from statewright.net import IDS_PER_MOMENT, Moment
from statewright.net.effects import Effect
from statewright.processes.changes import ExecutionStatus
from statewright.processes.language import (
    Applied,
    Drawing,
    I,
    InstanceOperation,
    NewInstance,
    P,
    ProcessLanguage,
    Rejection,
)

R = TypeVar("R")

MAX_NODES: Final = 50_000
"""Of all definitions that a process remembers."""
MAX_RESULTS: Final = 200
"""That are applied together."""
_IDS_PER_RESULT: Final = IDS_PER_MOMENT >> 8
"""Each uses a part of the range of the moment, of which there are more than results."""

_compiled: LruCache[tuple[str, int, bytes], tuple[object, int]] = LruCache(MAX_NODES, lambda found: found[1])
"""With the number of its nodes."""


class DefinitionSource(Struct, Generic[P, I], frozen=True):
    """One version of a definition, as it is stored."""

    language: ProcessLanguage[P, I]
    source: str
    version: int

    def compile(self) -> P:
        """The process; the same one as long as it is remembered."""
        key = (self.language.name, self.version, sha256(self.source.encode()).digest())
        found = _compiled.get(key)
        if found is None:
            process = self.language.compile_source(self.source, self.version)
            found = (process, self.language.count_nodes(process))
            _compiled.put(key, found)
        return cast("P", found[0])  # the key names the language

    def use(self, use: Callable[[P], R]) -> R:
        """What a function makes of the process."""
        return use(self.compile())

    def apply(self, operation: InstanceOperation[P, I], instance: I, moment: Moment) -> Applied[I] | Rejection:
        """What an operation on an instance comes to."""
        return operation(self.compile(), instance, moment=moment)

    def start(self, new: NewInstance, moment: Moment) -> Applied[I]:
        """A new instance."""
        return self.language.start_instance(self.compile(), new, moment)


def apply_results(
    process: P, instance: I, *, language: ProcessLanguage[P, I], results: dict[str, JsonValue], moment: Moment
) -> Applied[I]:
    """The instance after the results of several jobs, each computed from what the one before it left. ``answer``: those
    that are not taken, as ``dict[str, Rejection]`` by job.
    """
    effects: list[Effect] = []
    transitions: list[str] = []
    rejections: dict[str, Rejection] = {}
    for number, (job, result) in enumerate(results.items()):
        part = Moment(at=moment.at, first_id=moment.first_id + number * _IDS_PER_RESULT)
        outcome = language.complete_job(process, instance, job, result, part)
        if isinstance(outcome, Rejection):
            rejections[job] = outcome
            continue
        instance = outcome.instance
        effects += outcome.effects
        transitions += outcome.transitions
    return Applied(instance=instance, effects=tuple(effects), transitions=tuple(transitions), answer=rejections)


def draw_with(draw: Callable[[P, Drawing], R], wanted: Drawing, process: P) -> R:
    """A definition as a diagram: the process comes last, as :meth:`DefinitionSource.use` hands it over."""
    return draw(process, wanted)


def draw_instance_with(
    draw: Callable[[P, I, Mapping[str, ExecutionStatus], Drawing], R],
    instance: I,
    statuses: Mapping[str, ExecutionStatus],
    wanted: Drawing,
    process: P,
) -> R:
    """The same of an instance."""
    return draw(process, instance, statuses, wanted)
