"""What a built-in model is; the service registers those it has in ``services.builtin``."""

from collections.abc import Mapping

from msgspec import Struct

from statewright.entity import ModelKey
from statewright.jsonval.values import JsonObject


class BuiltinModel(Struct, frozen=True, kw_only=True):
    """A model whose entities the service writes itself; every tenant has it once it needs it."""

    key: ModelKey
    owner: str
    """Who writes its entities, in the words of a refusal."""
    sample: JsonObject
    """A document that has every member; the schema is that of its values."""
    states: Mapping[str, Mapping[str, str]]
    """For each state where its transitions lead, by their names. The first state is that of new entities."""
    client_transitions: frozenset[str] = frozenset()
    """Transitions that clients of the entity API may fire."""
    open_paths: tuple[str, ...] = ()
    """What others choose and has no schema: any path at or below is known, and holds texts, numbers and booleans."""
