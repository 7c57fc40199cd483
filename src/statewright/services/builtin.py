"""Built-in models: models whose entities the service writes itself, such as the instances of processes.

Entity services know them by this registry only: what is refused to clients, which transitions are open to them, where
documents are free of a schema. Which models there are, and what their transitions do, is said where the service is put
together (``app.runtime``). A tenant has them from when it first needs them: locked, with the workflow they follow.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final, Literal, TypeVar

from msgspec import Struct

from statewright.entity import Entity, ModelKey
from statewright.failures import Forbidden, TransitionNotFound
from statewright.ids import ModelId, TenantId, TransactionId, model_id
from statewright.jsonval.codec import encode
from statewright.jsonval.values import DataType, JsonObject, JsonValue
from statewright.processes.language import BuiltinModel
from statewright.schema import DeclaredField, SchemaNode, infer, normalise
from statewright.schema import schema_to_stored as schema_to_stored
from statewright.storage import models
from statewright.storage.pool import Pool

T = TypeVar("T")

ModelScope = Literal["own", "all"]
"""Which models a list is about: those that users have made, or the built-in ones, too."""

_ANYTHING: Final = DeclaredField(types=frozenset({DataType.STRING, DataType.UNBOUND_DECIMAL, DataType.BOOLEAN}))


class FireRequest(Struct, frozen=True, kw_only=True):
    """A transition that a client wants to fire on an entity of a built-in model; None is a mere save."""

    entity: Entity
    transition: str | None
    document: JsonObject
    if_match: str | None = None


class BuiltinChange(Struct, frozen=True, kw_only=True):
    """What firing it has done; with a description of its own by each language."""

    transaction_id: TransactionId
    """That wrote the entity last."""


class BuiltinModels:
    """The built-in models of a service."""

    def __init__(self, known: Iterable[BuiltinModel] = ()) -> None:
        self.by_id: Mapping[ModelId, BuiltinModel] = {model_id(each.key.name, each.key.version): each for each in known}
        self.by_key: Mapping[ModelKey, BuiltinModel] = {each.key: each for each in self.by_id.values()}

    def select(self, found: Iterable[T], get_key: Callable[[T], ModelKey], scope: ModelScope) -> list[T]:
        """Those of ``found`` whose models are in the scope, in the same order."""
        return [each for each in found if scope == "all" or get_key(each) not in self.by_key]

    def refuse_model(self, key: ModelKey) -> None:
        """Keep clients from making, changing or removing a built-in model or its entities. Raises ``Forbidden``."""
        known = self.by_key.get(key)
        if known is not None:
            raise Forbidden(f"model {key.name}/{key.version} belongs to {known.owner}")

    def refuse_entities(self, model: ModelId) -> None:
        """As ``refuse_model``, by the model's id. Raises ``Forbidden``."""
        known = self.by_id.get(model)
        if known is not None:
            self.refuse_model(known.key)

    def check_transition(self, request: FireRequest) -> None:
        """Let only transitions pass that are open to clients.

        Raises ``Forbidden`` for a save and for transitions that only the owner of the model fires,
        ``TransitionNotFound`` for what the state does not have.
        """
        entity, known = request.entity, self.by_id[request.entity.model]
        if request.transition is None:
            raise Forbidden(f"entities of {known.key.name}/{known.key.version} are written by {known.owner} only")
        if request.transition not in known.states.get(entity.state, {}):
            raise TransitionNotFound(
                f'transition "{request.transition}" not found in state "{entity.state}": transition not found'
            )
        if request.transition not in known.client_transitions:
            raise Forbidden(f'transition "{request.transition}" is fired by {known.owner} only')

    def open_free_fields(self, model: ModelId, declared: Mapping[str, DeclaredField]) -> Mapping[str, DeclaredField]:
        """The fields of a model as conditions see them; those of a built-in one are open where they are free."""
        known = self.by_id.get(model)
        return declared if known is None else OpenFields(declared, known.open_paths)


class OpenFields(Mapping[str, DeclaredField]):
    """Declared fields, and every path at or below a free one."""

    def __init__(self, declared: Mapping[str, DeclaredField], free: tuple[str, ...]) -> None:
        self._declared = declared
        self._free = free

    def __getitem__(self, path: str) -> DeclaredField:
        found = self._declared.get(path)
        if found is not None:
            return found
        if any(path.startswith((f"{free}.", f"{free}[*]")) or path == free for free in self._free):
            return _ANYTHING
        raise KeyError(path)

    def __iter__(self) -> Iterator[str]:
        return iter(self._declared)

    def __len__(self) -> int:
        return len(self._declared)


def build_schema(model: BuiltinModel) -> SchemaNode:
    """The schema of a built-in model."""
    return normalise(infer(model.sample))


def build_workflow(model: BuiltinModel) -> JsonObject:
    """The workflow of a built-in model, in the form of an import. All its transitions are manual."""
    states: JsonObject = {}
    for state, targets in model.states.items():
        transitions: list[JsonValue] = [
            {"name": name, "next": target, "manual": True} for name, target in targets.items()
        ]
        states[state] = {"transitions": transitions}
    return {
        "version": "1.3",
        "name": model.key.name,
        "desc": f"Kept by {model.owner}",
        "initialState": next(iter(states)),
        "active": True,
        "states": states,
    }


async def create_missing_models(pool: Pool, tenant: TenantId, needed: Iterable[BuiltinModel]) -> None:
    """Make the built-in models that a tenant lacks; concurrent calls are harmless."""
    for model in needed:
        async with models.edit_model(pool, tenant, model.key) as edit:
            if await edit.get_model() is None:
                await edit.save_schema(encode(schema_to_stored(build_schema(model))).decode())
                await edit.save_workflows(encode([{"contract": "STRICT", "workflow": build_workflow(model)}]).decode())
                await edit.set_state("LOCKED")
