"""Use cases of bulk jobs, which do one thing to many entities (docs/reference/operations.md#bulk-jobs);
``bulk_runs.py`` works on them.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Annotated, Final
from uuid import UUID

from msgspec import Meta, Struct
from msgspec.structs import replace

from statewright.conditions import MalformedCondition, SearchCondition, check_destructive, read_search_condition
from statewright.entity import Principal
from statewright.failures import (
    BulkCountChanged,
    Forbidden,
    InvalidCondition,
)
from statewright.ids import make_uuid7
from statewright.jsonval.codec import encode
from statewright.jsonval.patches import apply_json_patch, apply_merge_patch
from statewright.operations.bulk_jobs import (
    MAX_OPERATOR_DELETIONS,
    OF_INSTANCES,
    BulkItem,
    BulkJob,
    BulkOrder,
    BulkPlan,
    plan_order,
)
from statewright.services.core import Caller, Core
from statewright.services.entities import Patch, read_patch
from statewright.services.ops.paging import Page, PageRequest, build_page
from statewright.services.ops.service import Operations
from statewright.services.search import Search, prepare
from statewright.storage.ops import bulk_items as items
from statewright.storage.ops import bulk_jobs as stored
from statewright.storage.ops.bulk_claims import decode_plan
from statewright.storage.ops.bulk_jobs import NewBulkJob
from statewright.storage.pool import Pool
from statewright.storage.search.statements import EntityQuery

ADMIN: Final = "ROLE_ADMIN"

QUIET_TIMEOUT_S: Final = 30.0
"""How long a pause waits for items that are under way."""
HEARD_S: Final = 1.0
"""How long a resumption waits for a node that has not heard of the pause: two of its beats."""


class BulkKey(Struct, frozen=True, array_like=True):
    """The place of a job in its list."""

    id: UUID


class ItemKey(Struct, frozen=True, array_like=True):
    """The place of an item in its list."""

    n: Annotated[int, Meta(ge=0, le=2**31 - 1)]


class ItemFilter(Struct, frozen=True, kw_only=True):
    """Which items are wanted; None: whichever."""

    statuses: tuple[str, ...] | None = None
    codes: tuple[str, ...] | None = None


def read_condition(plan: BulkPlan) -> SearchCondition:
    """The condition of a plan that has one. Raises ``InvalidCondition``, also for one that could match everything by
    accident.
    """
    try:
        condition = read_search_condition(plan.condition or {})
        check_destructive(condition.tree)
    except MalformedCondition as malformed:
        raise InvalidCondition(f"invalid condition: {malformed}") from malformed
    return condition


def read_change(plan: BulkPlan) -> Patch | None:
    """The patch of a plan, if it has one. Raises ``BadRequest``."""
    arguments = plan.arguments
    if arguments.merge_patch is not None:
        return read_patch(apply_merge_patch, encode(arguments.merge_patch))
    if arguments.json_patch is not None:
        return read_patch(apply_json_patch, encode(arguments.json_patch))
    return None


async def create_job(operations: Operations, caller: Caller, order: BulkOrder, ids: Sequence[UUID] | None) -> BulkJob:
    """Store a job, which is frozen in the background. ``ids`` are those of the order, read, each once.

    Raises ``LimitReached``, ``ModelNotFound`` and what a search of the condition is refused with.
    """
    plan = plan_order(order)
    if plan.model is not None:
        if plan.operation not in OF_INSTANCES:
            operations.core.builtin.refuse_model(plan.model)
        await prepare_search(operations.core, caller.principal, plan)
    read_change(plan)
    if ids is not None:
        check_deletions(caller.principal, plan, len(ids))
    job = NewBulkJob(
        id=str(make_uuid7(operations.core.clock())),
        plan=plan,
        reason=order.reason,
        rate=order.rate_per_second,
        concurrency=order.concurrency,
        stop_after=order.stop_after_failures,
        ids=ids,
    )
    return await _change(operations, caller, lambda pool: stored.add_job(pool, caller.principal, job))


async def retry_failed(operations: Operations, caller: Caller, id_: str) -> BulkJob:
    """A new job over the items that failed. Raises ``BulkJobNotFound``, ``LimitReached``."""
    row = await stored.read_plan(operations.core.pool, caller.tenant, id_)
    plan = replace(decode_plan(row["plan"]), dry_run=False)
    job = NewBulkJob(
        id=str(make_uuid7(operations.core.clock())),
        plan=plan,
        reason=row["reason"],
        rate=row["rate"],
        concurrency=row["concurrency"],
        stop_after=row["stop_after"],
        again=id_,
    )
    return await _change(operations, caller, lambda pool: stored.add_job(pool, caller.principal, job))


async def start_job(operations: Operations, caller: Caller, id_: str, expected: int | None) -> BulkJob:
    """Let a job run that was frozen and judged. Raises ``BulkCountChanged``, ``BulkState``, ``BulkJobNotFound``."""
    found = await stored.get_job(operations.core.pool, caller.tenant, id_)
    total = found.totals.total
    if found.status == "READY" and expected is not None and expected != total:
        raise BulkCountChanged(total)
    return await change_status(operations, caller, id_, "start")


async def change_status(operations: Operations, caller: Caller, id_: str, action: str) -> BulkJob:
    """Start, pause, resume or cancel a job; what ends it waits until none of its items is under way, for some time, and
    what lets it go on until the node that works on it has heard of the pause.

    Raises ``BulkState``, ``BulkJobNotFound``.
    """
    if action in ("start", "resume"):
        found = await stored.get_job(operations.core.pool, caller.tenant, id_)
        row = await stored.read_plan(operations.core.pool, caller.tenant, id_)
        check_deletions(caller.principal, decode_plan(row["plan"]), found.totals.total)
        if action == "resume" and found.status != "RUNNING" and found.totals.running:
            await _wait_quiet(operations, caller, id_, HEARD_S)  # else it would begin others as who ran it before

    def change(pool: Pool) -> Awaitable[BulkJob]:
        return stored.change_status(pool, caller.principal, id_, action)

    changed = await _change(operations, caller, change)
    if action in ("pause", "cancel") and changed.totals.running:
        changed = await _wait_quiet(operations, caller, id_, QUIET_TIMEOUT_S)
        await caller.amend_answer(changed)
    return changed


async def set_pace(
    operations: Operations, caller: Caller, id_: str, rate: int | None, concurrency: int | None
) -> BulkJob:
    """Let a job run at another pace. Raises ``BulkState``, ``BulkJobNotFound``."""
    return await _change(
        operations, caller, lambda pool: stored.set_pace(pool, caller.principal, id_, rate, concurrency)
    )


async def _change(operations: Operations, caller: Caller, change: Callable[[Pool], Awaitable[BulkJob]]) -> BulkJob:
    changed = await caller.carry_out(operations.core.pool, change, lambda job: job)
    operations.bulk.wake()
    return changed


async def _wait_quiet(operations: Operations, caller: Caller, id_: str, timeout_s: float) -> BulkJob:
    until, pause_s = time.monotonic() + timeout_s, 0.05
    found = await stored.get_job(operations.core.pool, caller.tenant, id_)
    while found.totals.running and time.monotonic() < until:
        await asyncio.sleep(pause_s)
        pause_s = min(2 * pause_s, 0.5)
        found = await stored.get_job(operations.core.pool, caller.tenant, id_)
    return found


async def get_job(core: Core, caller: Caller, id_: str) -> BulkJob:
    """The job as it is now. Raises ``BulkJobNotFound``."""
    return await stored.get_job(core.pool, caller.tenant, id_)


async def list_jobs(
    core: Core, caller: Caller, statuses: tuple[str, ...] | None, page: PageRequest[BulkKey]
) -> Page[BulkJob, BulkKey]:
    """The jobs of the tenant, newest first."""
    after = page.after.id if page.after else None
    found = await stored.list_jobs(core.pool, caller.tenant, statuses, limit=page.size + 1, after=after)
    return build_page(page, found, lambda job: BulkKey(UUID(job.id)))


async def list_items(
    core: Core, caller: Caller, id_: str, wanted: ItemFilter, page: PageRequest[ItemKey]
) -> Page[tuple[int, BulkItem], ItemKey]:
    """The items of a job in the order of the freeze, each with its number. Raises ``BulkJobNotFound``."""
    found = await items.list_items(
        core.pool,
        caller.tenant,
        id_,
        statuses=wanted.statuses,
        codes=wanted.codes,
        limit=page.size + 1,
        after=page.after.n if page.after else -1,
    )
    return build_page(page, found, lambda item: ItemKey(item[0]))


async def prepare_search(core: Core, principal: Principal, plan: BulkPlan) -> EntityQuery:
    """The search for what satisfies the condition of a plan. Raises what a search is refused with."""
    assert plan.model is not None  # noqa: S101 - a condition is about a model
    search = Search(key=plan.model, condition=read_condition(plan))
    return await prepare(core, principal.tenant, search)


def check_deletions(principal: Principal, plan: BulkPlan, count: int) -> None:
    """Raises ``Forbidden`` where a principal may not delete so many."""
    if plan.operation == "DELETE" and count > MAX_OPERATOR_DELETIONS and ADMIN not in principal.roles:
        raise Forbidden(f"deleting more than {MAX_OPERATOR_DELETIONS} entities needs {ADMIN}")
