"""Stopping movement at a chosen place, and letting it go on (docs/reference/operations.md#suspensions).

*Changing* one is a commit, an announcement, and a wait until every node that is alive says that it acts by the new
revision. A node that does not say so in time is named in the answer.

The tenants that record events (``services/ops/events.py``) are switches of the same kind, under the same revisions.

*Knowing* them. Every node loads all of them when it hears of a change, and looks for changes it did not hear of every
few seconds. A node that the others take for dead is not waited for, so it loads them anew before each run.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection
from datetime import timedelta
from functools import partial
from typing import Final, Literal
from uuid import UUID

from msgspec import Struct
from msgspec.structs import replace

from statewright.cluster.node import ClusterNode
from statewright.entity import Actor, ModelKey
from statewright.failures import SuspensionNotFound
from statewright.ids import NodeId, TenantId, make_uuid7
from statewright.instants import to_rfc3339
from statewright.loop.background import Removal, repeat
from statewright.net import uuid_to_ulid
from statewright.operations.active_suspensions import ActiveSuspensions, Suspension, Target
from statewright.operations.suspensions import Scope, SuspensionView, TimerPolicy
from statewright.services.core import Caller, Core
from statewright.services.ops.paging import Page, PageRequest, build_page
from statewright.services.ops.waiting import CONFIRM_WITHIN_S, wait_for_nodes
from statewright.storage.commit.outbox import RecordedTenants
from statewright.storage.ops import events
from statewright.storage.ops import suspensions as stored
from statewright.storage.ops.service import MAX_BATCH, remove_rows
from statewright.storage.ops.suspensions import NewSuspension
from statewright.storage.ops.suspensions import SuspensionFilter as SuspensionFilter
from statewright.storage.pool import Pool
from statewright.telemetry import logs

LOOK_INTERVAL: Final = timedelta(seconds=5)
"""Between looks for changes that were not heard of."""

END_INTERVAL: Final = timedelta(seconds=1)
"""Between looks for suspensions whose time is over."""

RETENTION: Final = timedelta(days=400)
"""Of suspensions that have ended."""

REMOVAL_INTERVAL: Final = timedelta(hours=1)

SYSTEM: Final = Actor("system", "system")

log = logs.logger(__name__)


class SuspensionKey(Struct, frozen=True, array_like=True):
    """The place of a suspension in its list."""

    id: UUID


class SuspensionState(Struct, frozen=True, kw_only=True):
    """A suspension, and the nodes that may not act by it yet. ``under_way`` counts runs that began before it, and jobs
    that were handed out before. ``is_looked_up`` False: neither is known.
    """

    suspension: Suspension
    pending_nodes: tuple[str, ...] = ()
    under_way: int = 0
    is_looked_up: bool = True

    @property
    def is_effective(self) -> bool:
        """Whether all nodes are known to act by it."""
        return self.is_looked_up and not self.pending_nodes


def show_suspension(state: SuspensionState) -> SuspensionView:
    """As clients are told of it."""
    suspension, target = state.suspension, state.suspension.target
    id_, scope = target.id, suspension.scope
    return SuspensionView(
        id=suspension.id,
        scope=scope,
        reason=suspension.reason,
        since=to_rfc3339(suspension.since),
        by=suspension.by,
        until=None if suspension.until is None else to_rfc3339(suspension.until),
        active=suspension.ended_at is None,
        effective=state.is_effective,
        pending_nodes=state.pending_nodes,
        under_way=state.under_way,
        effective_at=None if suspension.effective_at is None else to_rfc3339(suspension.effective_at),
        entity_id=id_ if scope == "ENTITY" else None,
        instance_id=uuid_to_ulid(id_) if id_ is not None and scope == "INSTANCE" else None,
        definition_id=target.definition,
        model=target.model,
        workflow=target.workflow,
        transition=target.transition,
        name=target.name,
        ended_at=None if suspension.ended_at is None else to_rfc3339(suspension.ended_at),
        ended_by=suspension.ended_by,
        end_reason=suspension.end_reason,
        timers=suspension.timers,
    )


async def suspend(
    core: Core,
    follower: "SuspensionFollower",
    caller: Caller,
    *,
    scope: Scope,
    target: Target,
    reason: str,
    until: int | None,
) -> SuspensionState:
    """Stop movement; waits until all nodes know. Raises ``EntityNotFound``, ``AlreadyExists``, ``LimitReached``."""
    wanted = NewSuspension(id=str(make_uuid7(core.clock())), scope=scope, target=target, reason=reason, until=until)
    return await _change(core, follower, caller, _build_begin(caller, wanted))


def _build_begin(caller: Caller, wanted: NewSuspension) -> Callable[[Pool], Awaitable[Suspension]]:
    by = caller.principal.actor
    return lambda pool: stored.begin_suspension(pool, caller.tenant, by, wanted)


async def suspend_one(core: Core, caller: Caller, scope: Literal["ENTITY", "INSTANCE"], id_: str, reason: str) -> None:
    """Stop an entity or instance, whose row is marked, so that no node has to be waited for. Raises as ``suspend``."""
    target = Target(id=id_)
    wanted = NewSuspension(id=str(make_uuid7(core.clock())), scope=scope, target=target, reason=reason, until=None)
    await caller.carry_out(core.pool, _build_begin(caller, wanted), lambda begun: begun)


async def resume_one(core: Core, caller: Caller, id_: str, reason: str | None) -> None:
    """Let an entity or instance go on; its timers fire that came due. Raises ``SuspensionNotFound``."""
    found = await stored.list_single(core.pool, caller.tenant, id_)

    async def end(pool: Pool) -> bool:
        by, now_ms = caller.principal.actor, core.clock() // 1000
        ended = [
            await stored.end_suspension(pool, caller.tenant, each, by, reason=reason, timers="FIRE", now_ms=now_ms)
            for each in found
        ]
        if not any(ended):
            raise SuspensionNotFound("it is not suspended")
        return True

    await caller.carry_out(core.pool, end, lambda done: done)


async def resume(
    core: Core, follower: "SuspensionFollower", caller: Caller, id_: str, *, timers: TimerPolicy, reason: str | None
) -> SuspensionState:
    """Let movement go on; waits until all nodes know. Raises ``SuspensionNotFound``."""
    by = caller.principal.actor
    now_ms = core.clock() // 1000

    async def end(pool: Pool) -> Suspension:
        ended = await stored.end_suspension(pool, caller.tenant, id_, by, reason=reason, timers=timers, now_ms=now_ms)
        if ended is None:
            raise SuspensionNotFound("no active suspension has this id")
        return ended

    return await _change(core, follower, caller, end)


async def _change(
    core: Core, follower: "SuspensionFollower", caller: Caller, change: Callable[[Pool], Awaitable[Suspension]]
) -> SuspensionState:
    """Make a change known. What is recorded of a request with an idempotency key commits with the change, when nobody
    acts by it yet, and is put right before anybody is told.
    """
    begun = await caller.carry_out(core.pool, change, lambda made: SuspensionState(suspension=made, is_looked_up=False))
    state = await _wait_effective(core, follower, begun)
    await caller.amend_answer(state)
    return state


async def list_suspensions(
    core: Core,
    follower: "SuspensionFollower",
    caller: Caller,
    wanted: SuspensionFilter,
    page: PageRequest[SuspensionKey],
) -> Page[SuspensionState, SuspensionKey]:
    """The suspensions of the tenant, newest first."""
    after = str(page.after.id) if page.after else None
    found = await stored.list_suspensions(core.pool, caller.tenant, wanted, limit=page.size + 1, after=after)
    states = [await _describe(core, follower, each) for each in found]
    limit = page.count_up_to
    total = await stored.count_suspensions(core.pool, caller.tenant, wanted, limit=limit) if page.counts else None
    return build_page(page, states, lambda state: SuspensionKey(UUID(state.suspension.id)), total)


async def get_suspension(core: Core, follower: "SuspensionFollower", caller: Caller, id_: str) -> SuspensionState:
    """One, active or ended. Raises ``SuspensionNotFound``."""
    found = await stored.find_suspension(core.pool, caller.tenant, id_)
    if found is None:
        raise SuspensionNotFound("no suspension has this id")
    return await _describe(core, follower, found)


async def _describe(core: Core, follower: "SuspensionFollower", suspension: Suspension) -> SuspensionState:
    is_confirmed = suspension.revision <= follower.confirmed_by_all
    pending = () if is_confirmed else tuple(await _list_pending(core, suspension))
    under_way = await _count_under_way(core, follower, suspension)
    return SuspensionState(suspension=suspension, pending_nodes=pending, under_way=under_way)


async def _count_under_way(core: Core, follower: "SuspensionFollower", suspension: Suspension) -> int:
    """What began before an active suspension and comes to its end under it."""
    scope, pool = suspension.scope, core.pool
    if suspension.ended_at is not None or scope in ("ENTITY", "TAG"):
        return 0
    count = 0
    if scope in ("INSTANCE", "DEFINITION", "JOB_TYPE", "TENANT"):
        count += await stored.count_leased_jobs(pool, suspension, now_us=core.clock())
    if scope in ("MODEL", "WORKFLOW", "TRANSITION", "TENANT"):
        count += follower.active.count_under_way().get(suspension.id, 0)
        own = follower.node_id
        count += await stored.count_under_way(pool, suspension.id, but=own)
    return count


async def _list_pending(core: Core, suspension: Suspension) -> list[str]:
    if suspension.scope == "ENTITY" and suspension.ended_at is None:
        return []  # its flag is read by every commit
    return await stored.list_pending_nodes(core.pool, suspension.revision)


async def _wait_effective(core: Core, follower: "SuspensionFollower", suspension: Suspension) -> SuspensionState:
    await follower.refresh()
    pending = await wait_for_nodes(partial(_list_pending, core, suspension))
    if not pending:
        follower.confirmed_by_all = max(follower.confirmed_by_all, suspension.revision)
        marked = await stored.mark_effective(core.pool)
        if suspension.id in marked:
            suspension = replace(suspension, effective_at=marked[suspension.id])
        elif suspension.effective_at is None and suspension.ended_at is None:  # another node has just done so
            suspension = await stored.find_suspension(core.pool, suspension.tenant, suspension.id) or suspension
    under_way = await _count_under_way(core, follower, suspension)
    return SuspensionState(suspension=suspension, pending_nodes=pending, under_way=under_way)


class SuspendedMoves(Struct, frozen=True, kw_only=True):
    """What of a tenant is suspended but for single entities, as another process is sent it."""

    tenant: TenantId
    suspensions: tuple[Suspension, ...]

    def compile(self, key: ModelKey) -> tuple[Callable[[str, str], bool], Callable[[Collection[str]], bool]]:
        """Tell whether a workflow of a model is suspended, or one of its transitions; and whether members with some of
        these tags are.
        """
        active, tenant = ActiveSuspensions(), self.tenant
        active.replace_all(self.suspensions, 0)

        def suspends(workflow: str, transition: str) -> bool:
            if transition:
                return active.find_transition(tenant, key, workflow, transition) is not None
            return bool(active.list_entity(tenant, "", key, workflow))

        return suspends, lambda tags: active.find_tags(tenant, tags) is not None


def list_suspended_moves(active: ActiveSuspensions, tenant: TenantId) -> SuspendedMoves:
    """What of a tenant is suspended now."""
    return SuspendedMoves(tenant=tenant, suspensions=active.list_broad(tenant))


class SuspensionFollower:
    """Keeps what a node knows of suspensions up to date, and tells the others what it does."""

    def __init__(self, pool: Pool, node: ClusterNode, active: ActiveSuspensions, recorded: RecordedTenants) -> None:
        self._pool = pool
        self._node = node
        self.active = active
        self._recorded = recorded
        self._changed = asyncio.Event()
        self.confirmed_by_all = 0
        """A revision by which every node was seen to act."""
        active.presence = recorded.presence = node.presence
        recorded.load = partial(events.load_recorded, pool)
        active.refresh = self.refresh
        active.on_late_end = self.announce_change

    @property
    def node_id(self) -> NodeId:
        """That of this node."""
        return self._node.id

    def announce_change(self) -> None:
        """There may be another revision."""
        self._changed.set()

    async def run(self) -> None:
        """Follow until cancelled."""
        await repeat(self.look_once, LOOK_INTERVAL, log=log, failure="suspensions_not_loaded", wake=self._changed)

    async def look_once(self) -> None:
        """Load them if there is another revision, and say so. Raises ``StorageUnavailable``."""
        self._changed.clear()
        if await stored.fetch_revision(self._pool) != self.active.revision:
            await self.refresh()
        else:
            await self._confirm()
        if self.active.has_unconfirmed:
            await stored.mark_effective(self._pool)
            await self.refresh()
        await events.mark_since(self._pool)

    async def refresh(self) -> None:
        """Load them, and tell the others that this node acts by them. Raises ``StorageUnavailable``."""
        revision, active = await stored.load_active(self._pool)
        recorded = await events.load_recorded(self._pool)
        if revision >= self.active.revision:
            self.active.replace_all(active, revision)
            self._recorded.replace_all(recorded)
        await self._confirm()

    async def _confirm(self) -> None:
        if not await self._recorded.wait_until_effective(CONFIRM_WITHIN_S):
            return
        under_way = self.active.count_under_way()
        await stored.confirm_revision(self._pool, self._node.id, self.active.revision, under_way)


class SuspensionEnder:
    """Ends suspensions whose time is over, and removes what ended long ago; every node does so."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self.removal = Removal(partial(remove_rows, core.pool, stored.REMOVE, RETENTION), MAX_BATCH)

    async def run(self) -> None:
        """Work until cancelled."""
        await repeat(self.run_once, END_INTERVAL, log=log, failure="suspensions_not_ended", waits_first=True)

    async def run_once(self) -> None:
        """End what is due now. Raises ``StorageUnavailable``."""
        for tenant, id_ in await stored.list_due_ends(self._core.pool):
            ended = await stored.end_suspension(
                self._core.pool, tenant, id_, SYSTEM, reason=None, timers="FIRE", now_ms=self._core.clock() // 1000
            )
            if ended is not None:
                log.info("suspension_ended", tenant=tenant, suspension=id_, scope=ended.scope)
        await self.removal.run_if_due(REMOVAL_INTERVAL)
