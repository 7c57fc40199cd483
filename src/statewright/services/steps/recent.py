"""What this process knows of instances that it wrote last, so that the next advance need not read and decode them.

An entry may be old, since other processes write instances, too. Whoever uses one therefore commits against its version,
and believes nothing else of it: neither that a job is unknown, nor that a step is not parked.
"""

from collections import OrderedDict
from typing import Generic, TypeVar

from msgspec import Struct

from statewright.entity import Entity
from statewright.identity import EntityId, TenantId
from statewright.steps.core import Instance

V = TypeVar("V")

MAX_INSTANCES = 2_000
MAX_VARIABLES = 16 * 1024
"""Characters of the document of an instance that is worth keeping."""
MAX_JOBS = 50_000


class Loaded(Struct, frozen=True, eq=False):
    """An instance and the version of its entity."""

    entity: Entity
    instance: Instance


class Recent(Generic[V]):
    """The last ``size`` values by tenant and id."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._values: OrderedDict[tuple[TenantId, str], V] = OrderedDict()

    def get(self, tenant: TenantId, key: str) -> V | None:
        """The value, if it is still there."""
        return self._values.get((tenant, key))

    def put(self, tenant: TenantId, key: str, value: V) -> None:
        """Remember a value as the last one."""
        self._values[tenant, key] = value
        self._values.move_to_end((tenant, key))
        if len(self._values) > self._size:
            self._values.popitem(last=False)

    def drop(self, tenant: TenantId, key: str) -> None:
        """Forget a value."""
        self._values.pop((tenant, key), None)


RecentInstances = Recent[Loaded]
InstancesOfJobs = Recent[EntityId]
