"""Entities in memory, and the lifecycles they follow."""

import uuid
from collections.abc import Mapping
from typing import Final

import msgspec
from msgspec import Struct

from statewright.entity import LOOPBACK
from statewright.failures import EntityNotFound, Suspended
from statewright.ids import system_clock
from statewright.instants import to_rfc3339
from statewright.jsonval.values import JsonObject, JsonValue
from statewright.sdk.operations import Entity

INITIAL_STATE: Final = "CREATED"
"""The initial state of entities without a lifecycle, as under the default workflow."""


class Lifecycle(Struct, frozen=True, kw_only=True):
    """The states of a model's entities: the initial one, and the target of each transition of a state."""

    initial: str
    states: Mapping[str, Mapping[str, str]]

    @classmethod
    def of(cls, workflow: JsonObject) -> "Lifecycle":
        """The lifecycle of a workflow in the form in which it is imported. Raises ``msgspec.ValidationError``."""
        read = msgspec.convert(workflow, _Workflow)
        states = {name: {each.name: each.next for each in state.transitions} for name, state in read.states.items()}
        return cls(initial=read.initial_state, states=states)


class _Transition(Struct):
    name: str
    next: str


class _State(Struct):
    transitions: tuple[_Transition, ...] = ()


class _Workflow(Struct, rename="camel"):
    initial_state: str
    states: dict[str, _State]


class View:
    """The entities as one request sees them. ``overlay`` is what its transaction has written so far, None outside a
    transaction; deleted entities are None in it.
    """

    def __init__(
        self,
        committed: dict[str, Entity],
        overlay: dict[str, Entity | None] | None,
        lifecycles: Mapping[tuple[str, int], Lifecycle],
        *,
        transaction_id: str,
        suspended: Mapping[str, str] = {},
    ) -> None:
        self._suspended = suspended
        self._committed = committed
        self._overlay = overlay
        self._lifecycles = lifecycles
        self.transaction_id = transaction_id

    def get_all(self) -> dict[str, Entity]:
        seen: dict[str, Entity | None] = {**self._committed, **(self._overlay or {})}
        return {entity_id: entity for entity_id, entity in seen.items() if entity is not None}

    def list_entities(self, model: str, version: int) -> list[Entity]:
        found = (
            entity for entity in self.get_all().values() if (entity.model, entity.model_version) == (model, version)
        )
        return sorted(found, key=lambda entity: entity.id)

    def get(self, entity_id: str) -> Entity:
        entity = self.get_all().get(entity_id)
        if entity is None:
            raise EntityNotFound.of(entity_id)
        return entity

    def put(self, entity: Entity) -> None:
        """Raises ``Suspended``."""
        if entity.id in self._suspended:
            raise Suspended("ENTITY", entity.id, reason=self._suspended[entity.id])
        if self._overlay is None:
            self._committed[entity.id] = entity
        else:
            self._overlay[entity.id] = entity

    def remove(self, entity_id: str) -> None:
        if self._overlay is None:
            del self._committed[entity_id]
        else:
            self._overlay[entity_id] = None

    def transitions(self, entity: Entity) -> Mapping[str, str]:
        lifecycle = self._lifecycles.get((entity.model, entity.model_version))
        return lifecycle.states.get(entity.state, {}) if lifecycle else {}

    def get_initial_state(self, model: str, version: int) -> str:
        return get_initial_state(self._lifecycles, model, version)


def get_initial_state(lifecycles: Mapping[tuple[str, int], Lifecycle], model: str, version: int) -> str:
    """The state in which entities of a model begin."""
    lifecycle = lifecycles.get((model, version))
    return lifecycle.initial if lifecycle else INITIAL_STATE


def new_entity(model: str, version: int, data: JsonValue, *, state: str, transaction_id: str, id: str = "") -> Entity:  # noqa: A002 - the field's own name
    """An entity that was created just now."""
    now = to_rfc3339(system_clock())
    return Entity(
        id=id or str(uuid.uuid1()),
        model=model,
        model_version=version,
        state=state,
        data=data,
        transaction_id=transaction_id,
        created=now,
        updated=now,
        transition=LOOPBACK,
    )
