"""A model as the engine runs it: workflows and criteria compiled once and kept as long as the definition is current."""

from collections.abc import Mapping

from msgspec import Struct

from statewright.conditions import Predicate, compile_predicate
from statewright.engine.documents import Documents
from statewright.entity import ModelKey
from statewright.identity import ModelId
from statewright.schema import Declared
from statewright.workflow import Criterion, Workflow


class Model(Struct, frozen=True, kw_only=True, eq=False):
    """What a run needs of a model. ``workflows`` are in stored order; empty when none were imported."""

    key: ModelKey
    id: ModelId
    declared: Mapping[str, Declared]
    documents: Documents
    workflows: tuple[Workflow, ...]
    workflows_revision: int
    may_segment: bool
    """Whether some processor commits a segment before it is dispatched."""
    lock: int | None = None
    """Which locking of the model this is; None for a model that nobody can unlock."""
    predicates: dict[int, Predicate] = {}

    def predicate(self, criterion: Criterion) -> Predicate:
        """The compiled criterion; compiled on first use, since most criteria of a large workflow are rarely met."""
        found = self.predicates.get(id(criterion))
        if found is None:
            assert criterion.condition is not None, "a malformed criterion is refused before it is compiled"  # noqa: S101
            found = self.predicates[id(criterion)] = compile_predicate(criterion.condition, self.declared)
        return found
