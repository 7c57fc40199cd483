"""Suspensions: what operators have stopped for a while, as every node keeps them in memory
(docs/reference/operations.md#suspensions).

A tenant without any costs a look into a dictionary.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial
from math import inf
from typing import Final, NamedTuple, Protocol, TypeAlias

from msgspec import Struct

from statewright.entity import Actor, ModelKey
from statewright.failures import Suspended
from statewright.ids import EntityId, ModelId, TenantId, model_id
from statewright.loop.deadlines import Lease
from statewright.operations.suspensions import Scope, TimerPolicy

FLAGGED: Final[tuple[Scope, ...]] = ("ENTITY", "INSTANCE")
"""Scopes whose target has a flag in its row, which every commit reads."""


class Target(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a suspension stops. Which members there are depends on the scope: ``id`` of an entity, an instance being
    one; ``model``; beside it ``workflow`` or ``transition``, or both; ``definition``, the id of one of whatever process
    language; ``name`` of a type of jobs or a tag.
    """

    id: str | None = None
    model: ModelKey | None = None
    workflow: str | None = None
    transition: str | None = None
    definition: str | None = None
    name: str | None = None


class Hold(Struct, frozen=True, kw_only=True):
    """Why something does not move for a while, for those who need not know more."""

    id: str
    tenant: TenantId
    scope: Scope
    target: Target
    reason: str

    def describe(self) -> dict[str, str]:
        """Which one it is, for the log."""
        return {"suspension": self.id, "scope": self.scope}


class Suspension(Hold, frozen=True, kw_only=True):
    """One suspension. Instants in epoch microseconds; ``until`` None: until somebody ends it. ``revision`` is that of
    all suspensions with this one among them. ``effective_at``: from then on all nodes act by it; None: not yet.
    """

    since: int
    by: Actor
    revision: int
    until: int | None = None
    effective_at: int | None = None
    ended_at: int | None = None
    ended_by: Actor | None = None
    end_reason: str | None = None
    timers: TimerPolicy | None = None


_Key: TypeAlias = tuple[Scope, str, int, str, str]
_TENANT: Final[_Key] = ("TENANT", "", 0, "", "")


class HeldTimers(Struct, frozen=True, kw_only=True):
    """The timers that must not be taken, in columns: of a tenant and model; only of a workflow, or a transition, where
    these are not None.
    """

    tenants: Sequence[TenantId]
    models: Sequence[ModelId | None]
    workflows: Sequence[str | None]
    transitions: Sequence[str | None]


class HeldProcesses(Struct, frozen=True):
    """Of which instances no jobs are handed out: whether some are suspended, or might be, entities being suspended;
    and those of these definitions.
    """

    has_instances: bool
    definitions: tuple[str, ...]


class MovingUnit(Protocol):
    """The transaction of a run, or of a request that joins one, which may not segment it."""

    @property
    def tenant(self) -> TenantId: ...

    @property
    def may_segment(self) -> bool: ...

    @property
    def on_close(self) -> list[Callable[[], None]]:
        """Called when it ends, whatever became of it."""
        ...


class _Moving(NamedTuple):
    """What a run moves, by a workflow: empty while it is not known; and the revision of suspensions it began with."""

    tenant: TenantId
    model: ModelKey
    workflow: str
    revision: int


class ActiveSuspensions:
    """The suspensions that a node knows of, and its runs, of which some may have begun before."""

    def __init__(self) -> None:
        self.revision = 0
        """That of the suspensions that are known."""
        self._by_tenant: dict[TenantId, dict[_Key, Suspension]] = {}
        self._held_timers: HeldTimers | None = None
        self.refusals: Counter[Scope] = Counter()
        """Requests that were refused, by scope."""
        self.presence = Lease(inf)
        """That of this node: as long as it lasts, a change would have waited for it."""
        self.refresh: Callable[[], Awaitable[None]] | None = None
        """Loads them anew."""
        self.on_change: list[Callable[[], None]] = []
        """Called when other suspensions hold than before."""
        self.on_late_end: Callable[[], None] | None = None
        """Called when a run ends that began under an older revision."""
        self._held_processes: dict[TenantId, HeldProcesses] = {}
        self._with_job_types: frozenset[TenantId] = frozenset()
        self._moving: dict[MovingUnit, _Moving] = {}

    def replace_all(self, suspensions: Iterable[Suspension], revision: int) -> None:
        """These are all there are, as of a revision."""
        found: dict[TenantId, dict[_Key, Suspension]] = {}
        for suspension in suspensions:
            found.setdefault(suspension.tenant, {})[_build_key(suspension)] = suspension
        self._by_tenant = found
        self._held_processes = {tenant: held for tenant, of in found.items() if (held := _list_held_processes(of))}
        self._with_job_types = frozenset(
            tenant for tenant, of in found.items() if any(key[0] == "JOB_TYPE" for key in of)
        )
        self._held_timers = list_held_timers([each for of in found.values() for each in of.values()]) if found else None
        self.revision = revision
        for notify in self.on_change:
            notify()

    async def ensure_current(self) -> None:
        """Load them anew if this node counts as dead for the others, who do not wait for it."""
        if asyncio.get_running_loop().time() >= self.presence.until:
            await self.load_anew()

    async def load_anew(self) -> None:
        """Learn of what changed a moment ago. Raises ``StorageUnavailable``."""
        if self.refresh is not None:
            await self.refresh()

    @property
    def held_timers(self) -> HeldTimers | None:
        """What the scheduler must leave; None: nothing."""
        return self._held_timers

    def refuse(self, hold: Hold) -> Suspended:
        """What a client is told whose request a suspension stops; it is counted."""
        self.refusals[hold.scope] += 1
        return Suspended(hold.scope, describe_target(hold.target), suspension_id=hold.id, reason=hold.reason)

    def is_idle(self, tenant: TenantId) -> bool:
        """Whether nothing of a tenant is suspended."""
        return tenant not in self._by_tenant

    @property
    def has_unconfirmed(self) -> bool:
        """Whether there is one of which it is not known that all nodes act by it."""
        return any(each.effective_at is None for of in self._by_tenant.values() for each in of.values())

    def count(self) -> dict[tuple[TenantId, Scope], int]:
        """How many there are, by tenant and scope."""
        counts: dict[tuple[TenantId, Scope], int] = {}
        for tenant, of in self._by_tenant.items():
            for suspension in of.values():
                counts[tenant, suspension.scope] = counts.get((tenant, suspension.scope), 0) + 1
        return counts

    def list_broad(self, tenant: TenantId) -> tuple[Suspension, ...]:
        """All of a tenant but those of single entities and instances, of which there may be many."""
        return tuple(each for each in self._by_tenant.get(tenant, {}).values() if each.scope not in FLAGGED)

    def list_entity(self, tenant: TenantId, entity: str, model: ModelKey, workflow: str) -> tuple[Suspension, ...]:
        """Those that concern an entity, the narrowest first."""
        keys: tuple[_Key, ...] = (
            ("ENTITY", entity, 0, "", ""),
            ("WORKFLOW", model.name, model.version, workflow, ""),
            ("MODEL", model.name, model.version, "", ""),
            _TENANT,
        )
        return self._list(tenant, keys)

    def find_transition(self, tenant: TenantId, model: ModelKey, workflow: str, transition: str) -> Suspension | None:
        """The one that keeps a transition from being taken."""
        if tenant not in self._by_tenant:
            return None
        keys: tuple[_Key, ...] = (
            ("TRANSITION", model.name, model.version, workflow, transition),
            ("TRANSITION", model.name, model.version, "", transition),
        )
        return next(iter(self._list(tenant, keys)), None)

    def find_tags(self, tenant: TenantId, tags: Iterable[str]) -> Suspension | None:
        """The one that keeps members with one of the tags from being asked."""
        if tenant not in self._by_tenant:
            return None
        return next(iter(self._list(tenant, [("TAG", tag.lower(), 0, "", "") for tag in tags])), None)

    def find_job_type(self, tenant: TenantId, job_type: str) -> Suspension | None:
        """The one that keeps jobs of a type from being handed out."""
        if tenant not in self._by_tenant:
            return None
        return next(iter(self._list(tenant, (("JOB_TYPE", job_type, 0, "", ""), _TENANT))), None)

    def has_job_types(self, tenant: TenantId) -> bool:
        """Whether jobs of some type are suspended."""
        return tenant in self._with_job_types

    def find_process(self, tenant: TenantId, instance: str, definition: str) -> Suspension | None:
        """The one that keeps clients from moving an instance, the narrowest first."""
        if tenant not in self._by_tenant:
            return None
        return next(iter(self.list_process(tenant, instance, definition)), None)

    def list_process(self, tenant: TenantId, instance: str, definition: str) -> tuple[Suspension, ...]:
        """All that concern an instance but for the types of its jobs, the narrowest first."""
        own: tuple[_Key, ...] = tuple((scope, instance, 0, "", "") for scope in FLAGGED)
        return self._list(tenant, (*own, ("DEFINITION", definition, 0, "", ""), _TENANT))

    def find_definition(self, tenant: TenantId, definition: str) -> Suspension | None:
        """The one that keeps instances of a definition from being started."""
        if tenant not in self._by_tenant:
            return None
        return next(iter(self._list(tenant, (("DEFINITION", definition, 0, "", ""), _TENANT))), None)

    def get_held_processes(self, tenant: TenantId) -> HeldProcesses | None:
        """The instances whose jobs are not handed out; None: there are none."""
        return self._held_processes.get(tenant)

    # What the engine asks: ``RunGuard`` there.

    async def admit_run(
        self, unit: MovingUnit, model: ModelKey, entity: EntityId, workflow: str, transition: str
    ) -> None:
        """Raises ``Suspended`` where something that the run would move is suspended."""
        if unit.may_segment:
            known = self._moving.get(unit)
            if known is None:
                unit.on_close.append(partial(self._end_run, unit))
            revision = self.revision if known is None else known.revision
            self._moving[unit] = _Moving(unit.tenant, model, workflow, revision)
        if asyncio.get_running_loop().time() >= self.presence.until:
            await self.load_anew()
        if unit.tenant in self._by_tenant:
            self.admit_move(unit, model, entity, workflow, transition)

    def admit_move(self, unit: MovingUnit, model: ModelKey, entity: EntityId, workflow: str, transition: str) -> None:
        """Raises ``Suspended``. What joins a run that began before is part of it, and only stopped by the suspension of
        an entity.
        """
        if unit.tenant not in self._by_tenant:
            return
        found = self.list_entity(unit.tenant, entity, model, workflow)
        if transition and (held := self.find_transition(unit.tenant, model, workflow, transition)):
            found = (*found, held)
        for suspension in found:
            if unit.may_segment or suspension.scope == "ENTITY":
                raise self.refuse(suspension)

    def find_hold(self, tenant: TenantId, model: ModelKey, workflow: str, transition: str) -> str | None:
        """What the audit trail says of a transition that is suspended."""
        return "suspended" if self.find_transition(tenant, model, workflow, transition) else None

    def admit_callout(self, tenant: TenantId, tags: Iterable[str]) -> None:
        """Raises ``Suspended`` for a callout that needs a tag which is suspended."""
        suspension = self.find_tags(tenant, tags)
        if suspension is not None:
            raise self.refuse(suspension)

    def _end_run(self, unit: MovingUnit) -> None:
        ended = self._moving.pop(unit, None)
        if ended is not None and ended.revision < self.revision and self.on_late_end is not None:
            self.on_late_end()

    def count_under_way(self) -> dict[str, int]:
        """Runs of this node that began before a suspension of what they move, by the id of the suspension; without
        suspensions that there are none of.
        """
        counts: Counter[str] = Counter()
        for run in self._moving.values():
            for suspension in self._by_tenant.get(run.tenant, {}).values():
                if run.revision < suspension.revision and _covers(suspension, run):
                    counts[suspension.id] += 1
        return dict(counts)

    def find_tenant(self, tenant: TenantId) -> Suspension | None:
        """That of the whole tenant."""
        return next(iter(self._list(tenant, (_TENANT,))), None)

    def find_entity(self, tenant: TenantId, entity: str) -> Suspension | None:
        """That of one entity."""
        return next(iter(self._list(tenant, (("ENTITY", entity, 0, "", ""),))), None)

    def _list(self, tenant: TenantId, keys: Iterable[_Key]) -> tuple[Suspension, ...]:
        of = self._by_tenant.get(tenant)
        if of is None:
            return ()
        return tuple(found for key in keys if (found := of.get(key)) is not None)


def describe_target(target: Target) -> str:
    """The target in one text, which tells it from all others of its scope."""
    model = f"{target.model.name}/{target.model.version}" if target.model else None
    return " ".join(
        part for part in (target.id, model, target.workflow, target.transition, target.definition, target.name) if part
    )


def _build_key(suspension: Suspension) -> _Key:
    target, scope = suspension.target, suspension.scope
    if target.model is not None:
        return (scope, target.model.name, target.model.version, target.workflow or "", target.transition or "")
    name = target.name or target.definition or ""
    return (scope, target.id or (name.lower() if scope == "TAG" else name), 0, "", "")


def _list_held_processes(of: Mapping[_Key, Suspension]) -> HeldProcesses | None:
    has_instances = any(key[0] in FLAGGED for key in of)
    definitions = tuple(key[1] for key in of if key[0] == "DEFINITION")
    return HeldProcesses(has_instances, definitions) if has_instances or definitions else None


def _covers(suspension: Suspension, run: _Moving) -> bool:
    target = suspension.target
    if suspension.scope == "TENANT":
        return True
    return target.model == run.model and target.workflow in {None, run.workflow}


def list_held_timers(suspensions: Sequence[Suspension]) -> HeldTimers:
    """What these suspensions hold, but for single entities."""
    held = [each for each in suspensions if each.target.model is not None or each.scope == "TENANT"]
    models = [each.target.model for each in held]
    return HeldTimers(
        tenants=[each.tenant for each in held],
        models=[None if model is None else model_id(model.name, model.version) for model in models],
        workflows=[each.target.workflow for each in held],
        transitions=[each.target.transition for each in held],
    )
