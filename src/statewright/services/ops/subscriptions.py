"""Subscriptions: who is told of what was committed (docs/reference/operations.md#subscriptions). What is delivered to
them, and when, is in ``services/ops/deliveries.py``.

The secret of a subscription and the values of its headers are sealed in the database.
"""

import re
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from datetime import timedelta
from decimal import Decimal
from typing import Annotated, Final
from uuid import UUID

import msgspec
from msgspec import Meta, Struct, field
from msgspec.structs import replace

from statewright.auth.keys import Sealer
from statewright.conditions import MalformedCondition, read_search_condition
from statewright.conditions.search import is_large_condition
from statewright.conditions.syntax import Condition, Function, Group, Lifecycle
from statewright.egress import Egress
from statewright.entity import ModelKey
from statewright.failures import BadRequest, InvalidCondition, RevisionMismatch, TargetNotAllowed
from statewright.ids import EntityId, TenantId, make_uuid7
from statewright.instants import from_rfc3339, to_rfc3339, to_us
from statewright.jsonval.codec import decode_stored
from statewright.jsonval.patches import apply_merge_patch
from statewright.jsonval.values import JsonObject
from statewright.net import parse_exact
from statewright.operations.events import EventFilter, EventPosition, place_behind
from statewright.operations.subscriptions import (
    MAX_WEBHOOKS,
    Delivery,
    Redelivery,
    Requeued,
    Rotation,
    ShownTarget,
    Subscription,
    SubscriptionFilter,
    SubscriptionOrder,
    SubscriptionPatch,
    SubscriptionStatus,
    SubscriptionTarget,
)
from statewright.services.core import Caller, Core
from statewright.services.ops.events import EventLog, SwitchFollower
from statewright.services.ops.paging import Page, PageRequest, build_page
from statewright.services.ops.targets import Signer, check_broker, check_url, find_exposed_secret, make_secret
from statewright.services.ops.waiting import wait_for_nodes
from statewright.services.search import Search, prepare
from statewright.storage.ops import events as recording
from statewright.storage.ops import subscriptions as stored
from statewright.storage.ops.subscriptions import DeliveryFilter as DeliveryFilter
from statewright.storage.ops.subscriptions import DeliveryRow, NewSubscription, StoredSubscription

MAX_OVERLAP: Final = timedelta(days=7)
MAX_KEPT: Final = 9
"""Secrets that sign beside the last one, each for as long as it was promised."""

MAX_OVERTAKEN: Final = 50
"""How often a change is made again that another one has overtaken: each time, one of these has been made."""

_NAME: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_OURS: Final = re.compile(
    r"host|connection|keep-alive|te|trailer|upgrade|expect|proxy-.*|accept-encoding|content-.*|transfer-.*|webhook-.*"
    r"|ce-.*|traceparent|tracestate",
    re.IGNORECASE,
)
"""Headers that subscribers cannot choose."""

_encode = msgspec.json.Encoder(decimal_format="number").encode


class Confidential(Struct, frozen=True, kw_only=True):
    """What is sealed of a subscription."""

    signers: tuple[Signer, ...] = ()
    secrets: dict[str, str] = field(name="headers", default_factory=dict)
    """Values of headers, and secrets of brokers, by name."""


_decode_confidential = msgspec.json.Decoder(Confidential).decode


def decode_plan(text: str) -> SubscriptionOrder:
    """What was asked for, as it is stored. Numbers keep their digits."""
    return msgspec.convert(decode_stored(text), SubscriptionOrder)


class SubscriptionKey(Struct, frozen=True, array_like=True):
    """The place of a subscription in its list."""

    id: UUID


class DeliveryKey(Struct, frozen=True, array_like=True):
    """The place of a delivery in its list."""

    at: Annotated[int, Meta(ge=0, le=2**63 - 1)]
    transaction: UUID
    entity: UUID


class Subscriptions(Struct, frozen=True, kw_only=True, eq=False):
    """What subscriptions are made and read with. ``egress`` goes where webhooks may; ``allows_inside``: names that are
    never public are allowed.
    """

    core: Core
    events: EventLog
    egress: Egress
    sealer: Sealer
    allows_inside: bool

    def open(self, subscription: StoredSubscription) -> Confidential:
        """The secrets and headers of a subscription. Raises ``BadRequest`` where they were sealed by another key."""
        plain = self.sealer.open(subscription.sealed, _name(subscription.tenant, subscription.id))
        if plain is None:
            raise BadRequest("the secrets of the subscription were sealed by another key: make a new one")
        return _decode_confidential(plain)

    def seal(self, tenant: TenantId, id_: str, confidential: Confidential) -> bytes:
        """What is stored of these."""
        return self.sealer.seal(_encode(confidential), _name(tenant, id_))


def _name(tenant: TenantId, id_: str) -> bytes:
    return f"{tenant}/{id_}".encode()


async def create(
    parts: Subscriptions, follower: SwitchFollower, caller: Caller, order: SubscriptionOrder
) -> Subscription:
    """Make a subscription; waits until all nodes record. Raises ``TargetNotAllowed``, ``LimitReached``, and what a
    reader is refused with who begins at an instant.
    """
    await _check_target(parts, order)
    await _check_predicates(parts, caller.tenant, order)
    position = await _find_start(parts, caller.tenant, order.start_at)
    id_, secret = str(make_uuid7(parts.core.clock())), None if order.target.broker else make_secret()
    signers = () if secret is None else (Signer(secret),)
    confidential = Confidential(signers=signers, secrets=order.target.conceal()[1])
    new = NewSubscription(
        id=id_,
        enabled=order.enabled,
        plan=_write_plan(order),
        sealed=parts.seal(caller.tenant, id_, confidential),
        position=position,
    )

    def show_made(made: StoredSubscription) -> Subscription:
        return replace(show(made, parts.core.clock()), secret=secret)

    by = caller.principal.actor
    made = await caller.carry_out(
        parts.core.pool, lambda pool: stored.add_subscription(pool, caller.tenant, by, new), show_made
    )
    await follower.refresh()
    switch = await recording.find_recording(parts.core.pool, caller.tenant)
    await wait_for_nodes(lambda: recording.list_pending_nodes(parts.core.pool, switch.revision))
    await recording.mark_since(parts.core.pool)
    return show_made(await stored.find_subscription(parts.core.pool, caller.tenant, made.id))


async def _find_start(parts: Subscriptions, tenant: TenantId, start: str) -> EventPosition | None:
    if start == "NOW":
        return None
    instant = from_rfc3339(start)
    if instant is None:
        raise _refuse("/startAt", "NOW, or an instant of RFC 3339")
    return await parts.events.begin(tenant, place_behind(instant - 1))


async def _check_target(parts: Subscriptions, order: SubscriptionOrder) -> None:
    """Raises ``BadRequest``, and ``TargetNotAllowed``, which does not tell what a name was resolved to."""
    target = order.target
    try:
        target.check()
    except ValueError as misfit:
        raise _refuse("/target", str(misfit)) from misfit
    if target.broker is None and order.in_flight > MAX_WEBHOOKS:
        raise _refuse("/maxInFlight", f"of webhooks at most {MAX_WEBHOOKS}")
    if target.broker is None:
        _check_headers(target.headers)
        if "#" in (url := target.url or ""):
            raise TargetNotAllowed("a fragment is not sent")
        await check_url(parts.egress, url, allows_inside=parts.allows_inside)
    else:
        await check_broker(parts.egress, target.broker, allows_inside=parts.allows_inside)


def _check_headers(headers: dict[str, str]) -> None:
    for name, value in headers.items():
        if not _NAME.fullmatch(name) or _OURS.fullmatch(name):
            raise TargetNotAllowed(f"the header {name} cannot be set", "headers")
        if not value.isprintable() or not value.isascii():
            raise TargetNotAllowed(f"the value of the header {name} has characters that cannot be sent", "headers")


async def _check_predicates(parts: Subscriptions, tenant: TenantId, order: SubscriptionOrder) -> None:
    """Raises ``BadRequest``, ``InvalidCondition``, ``ModelNotFound``, and what a search of the condition is refused
    with.
    """
    for place, wanted in enumerate(order.filters):
        if wanted.body_predicate is None:
            continue
        pointer = f"/filters/{place}/bodyPredicate"
        if wanted.model_name is None or wanted.model_version is None:
            raise _refuse(pointer, "it wants modelName and modelVersion")
        key = ModelKey(wanted.model_name, wanted.model_version)
        if is_large_condition(wanted.body_predicate):
            raise _refuse(pointer, "too large")
        try:
            condition = read_search_condition(wanted.body_predicate)
            beyond = _looks_beyond_document(condition.tree)
        except MalformedCondition as malformed:
            raise InvalidCondition(f"invalid condition: {malformed}") from malformed
        if beyond:
            raise _refuse(pointer, "functions and lifecycle clauses are not judged here")
        await prepare(parts.core, tenant, Search(key=key, condition=condition))


def _looks_beyond_document(condition: Condition) -> bool:
    if isinstance(condition, Group):
        return any(map(_looks_beyond_document, condition.conditions))
    return isinstance(condition, Lifecycle | Function)


def _write_plan(order: SubscriptionOrder) -> str:
    return _encode(replace(order, target=order.target.conceal()[0])).decode()


async def list_all(
    parts: Subscriptions, caller: Caller, page: PageRequest[SubscriptionKey]
) -> Page[Subscription, SubscriptionKey]:
    """The subscriptions of the tenant, by id."""
    after = str(page.after.id) if page.after else None
    found = await stored.list_subscriptions(parts.core.pool, caller.tenant, limit=page.size + 1, after=after)
    now = parts.core.clock()
    return build_page(page, [show(one, now) for one in found], lambda one: SubscriptionKey(UUID(one.id)))


async def get(parts: Subscriptions, caller: Caller, id_: str) -> Subscription:
    """One. Raises ``SubscriptionNotFound``."""
    return show(await stored.find_subscription(parts.core.pool, caller.tenant, id_), parts.core.clock())


async def change(
    parts: Subscriptions, caller: Caller, id_: str, patch: JsonObject, revision: int | None
) -> Subscription:
    """Change a subscription by a merge patch. One whose target was a broker, and is a webhook now, has a secret then.
    Raises ``SubscriptionNotFound``, ``RevisionMismatch``, ``TargetNotAllowed``, and ``msgspec.ValidationError`` where
    what comes of it does not fit.
    """
    if "startAt" in patch:
        raise _refuse("/startAt", "it has begun")
    msgspec.convert(patch, SubscriptionPatch)  # also where a member is only taken away
    if revision is not None:
        return await _change_once(parts, caller, id_, patch, revision)
    return await _repeat_overtaken(lambda: _change_once(parts, caller, id_, patch, None))


async def _repeat_overtaken(change_once: Callable[[], Awaitable[Subscription]]) -> Subscription:
    """Make a change again, on what the subscription has become, where another one came first."""
    for _ in range(MAX_OVERTAKEN):
        with suppress(RevisionMismatch):
            return await change_once()
    return await change_once()


async def _change_once(
    parts: Subscriptions, caller: Caller, id_: str, patch: JsonObject, revision: int | None
) -> Subscription:
    before = await stored.find_subscription(parts.core.pool, caller.tenant, id_)
    if revision is not None and revision != before.revision:
        raise RevisionMismatch(before.revision, "the subscription is")
    confidential = parts.open(before)
    plan = decode_plan(before.plan)
    revealed = replace(plan, target=plan.target.reveal(confidential.secrets))
    known: JsonObject = msgspec.to_builtins(revealed, builtin_types=(Decimal,))
    known["enabled"] = before.enabled
    order = msgspec.convert(apply_merge_patch(known, patch), SubscriptionOrder)
    if "target" in patch or "maxInFlight" in patch:
        await _check_target(parts, order)
        if exposed := find_exposed_secret(revealed.target, order.target, patch.get("target")):
            raise _refuse(f"/target{exposed}", "to be given again, since the target is elsewhere now")
    if "filters" in patch:
        await _check_predicates(parts, caller.tenant, order)
    secret = None if order.target.broker or confidential.signers else make_secret()  # it was a broker
    signers = confidential.signers if secret is None else (Signer(secret),)
    sealed = parts.seal(caller.tenant, id_, Confidential(signers=signers, secrets=order.target.conceal()[1]))
    begins_anew = order.target != revealed.target or (order.enabled and not before.enabled)
    details = {"changed": sorted(patch)}
    return await _store_change(
        parts, caller, before, order, sealed, "subscription.change", details, secret, begins_anew=begins_anew
    )


async def _store_change(
    parts: Subscriptions,
    caller: Caller,
    before: StoredSubscription,
    order: SubscriptionOrder,
    sealed: bytes,
    action: str,
    details: Mapping[str, object],
    secret: str | None,
    *,
    begins_anew: bool = False,
) -> Subscription:
    def show_changed(changed: StoredSubscription | None) -> Subscription:
        if changed is None:
            raise RevisionMismatch(before.revision + 1, "the subscription is")
        return replace(show(changed, parts.core.clock()), secret=secret)

    changed = await caller.carry_out(
        parts.core.pool,
        lambda pool: stored.change_subscription(
            pool,
            caller.principal.actor,
            before,
            enabled=order.enabled,
            plan=_write_plan(order),
            sealed=sealed,
            begins_anew=begins_anew,
            action=action,
            details=details,
        ),
        show_changed,
    )
    return show_changed(changed)


async def rotate_secret(parts: Subscriptions, caller: Caller, id_: str, wish: Rotation) -> Subscription:
    """Sign by a new secret, and for a while by the one before. Raises ``SubscriptionNotFound``, ``BadRequest``."""
    if (overlap := parse_exact(wish.overlap, MAX_OVERLAP)) is None:
        raise _refuse("/overlap", "an ISO 8601 duration of 7 days at most")
    overlap_us = to_us(overlap)
    return await _repeat_overtaken(lambda: _rotate_once(parts, caller, id_, overlap_us))


async def _rotate_once(parts: Subscriptions, caller: Caller, id_: str, overlap_us: int) -> Subscription:
    before = await stored.find_subscription(parts.core.pool, caller.tenant, id_)
    confidential, now = parts.open(before), parts.core.clock()
    if decode_plan(before.plan).target.broker is not None:
        raise BadRequest("nothing is signed for a broker")
    secret, until = make_secret(), now + overlap_us
    good = [one for one in confidential.signers if one.until is None or one.until > now]
    kept = [replace(one, until=one.until or until) for one in good] if overlap_us else []
    sealed = parts.seal(caller.tenant, id_, replace(confidential, signers=(Signer(secret), *kept[:MAX_KEPT])))
    plan = replace(decode_plan(before.plan), enabled=before.enabled)
    details = {"overlapSeconds": overlap_us // 1_000_000}
    return await _store_change(parts, caller, before, plan, sealed, "subscription.rotate-secret", details, secret)


async def delete(parts: Subscriptions, follower: SwitchFollower, caller: Caller, id_: str) -> Subscription:
    """End a subscription. Raises ``SubscriptionNotFound``."""

    def show_ended(ended: StoredSubscription) -> Subscription:
        return replace(show(ended, parts.core.clock()), enabled=False, status="DISABLED")

    ended = await caller.carry_out(
        parts.core.pool,
        lambda pool: stored.delete_subscription(pool, caller.tenant, caller.principal.actor, id_),
        show_ended,
    )
    await follower.refresh()
    return show_ended(ended)


async def list_deliveries(
    parts: Subscriptions, caller: Caller, id_: str, wanted: DeliveryFilter, page: PageRequest[DeliveryKey]
) -> Page[Delivery, DeliveryKey]:
    """What became of the events of a subscription, newest first. Raises ``SubscriptionNotFound``."""
    await stored.find_subscription(parts.core.pool, caller.tenant, id_)
    key = page.after
    after = None if key is None else EventPosition(key.at, str(key.transaction), str(key.entity))
    found = await stored.list_deliveries(parts.core.pool, caller.tenant, id_, wanted, limit=page.size + 1, after=after)
    built = build_page(page, found, lambda row: DeliveryKey(row.position.at, *map(UUID, row.position[1:])))
    return Page(items=[_show_delivery(row) for row in built.items], last_key=built.last_key)


async def redeliver(parts: Subscriptions, caller: Caller, id_: str, wish: Redelivery) -> Requeued:
    """Have deliveries that have ended made again. Raises ``SubscriptionNotFound``, ``BadRequest``."""
    since, until = _read_instant("/from", wish.since), _read_instant("/to", wish.until)
    if (wish.delivery_ids is None) == (since is None):
        raise _refuse("/deliveryIds", "these, or from")
    if wish.delivery_ids is not None and until is not None:
        raise _refuse("/to", "it goes with from")
    try:
        ids = None if wish.delivery_ids is None else [str(UUID(one)) for one in wish.delivery_ids]
    except ValueError:
        raise _refuse("/deliveryIds", "not a UUID") from None
    subscription = await stored.find_subscription(parts.core.pool, caller.tenant, id_)
    by = caller.principal.actor
    count = await caller.carry_out(
        parts.core.pool,
        lambda pool: stored.requeue(pool, by, subscription, ids=ids, since=since, before=until),
        lambda made: Requeued(count=made),
    )
    return Requeued(count=count)


def _read_instant(pointer: str, text: str | None) -> int | None:
    found = None if text is None else from_rfc3339(text)
    if text is not None and found is None:
        raise _refuse(pointer, "an instant of RFC 3339")
    return found


def _refuse(pointer: str, wrong: str) -> BadRequest:
    return BadRequest(f"invalid body: {pointer}: {wrong}", {"parameter": pointer})


def show(subscription: StoredSubscription, now: int) -> Subscription:
    """A subscription as operators see it."""
    plan = decode_plan(subscription.plan)
    return Subscription(
        id=subscription.id,
        name=plan.name,
        revision=subscription.revision,
        status=_find_status(subscription),
        enabled=subscription.enabled,
        target=_show_target(plan.target),
        filters=plan.filters,
        include_body=plan.include_body,
        max_in_flight=plan.in_flight,
        disable_after_failures=plan.disable_after_failures,
        position=subscription.position.write(),
        lag_seconds=max(now - subscription.position.at, 0) / 1_000_000,
        parked=subscription.parked,
        failures=subscription.failures,
        created_at=to_rfc3339(subscription.created_at),
        created_by=subscription.created_by,
        disabled_reason=subscription.disabled_reason,
    )


def _show_target(target: SubscriptionTarget) -> ShownTarget:
    if target.url is None:
        return ShownTarget(kafka=target.kafka, nats=target.nats)
    return ShownTarget(url=target.url, header_names=[*target.headers])


def _find_status(subscription: StoredSubscription) -> SubscriptionStatus:
    if not subscription.enabled:
        return "DISABLED"
    if subscription.is_starting:
        return "STARTING"
    return "FAILING" if subscription.failures else "ACTIVE"


class BodyFilter(Struct, frozen=True, kw_only=True):
    """A filter, and the condition on documents that it has beside; None: it has none."""

    events: EventFilter
    model: ModelKey | None = None
    predicate: Condition | None = None


def build_filters(plan: SubscriptionOrder) -> list[BodyFilter]:
    """The filters of a subscription as events are held against them."""
    return [
        BodyFilter(
            events=_build_filter(one),
            model=ModelKey(one.model_name or "", one.model_version or 0),
            predicate=None if one.body_predicate is None else read_search_condition(one.body_predicate).tree,
        )
        for one in plan.filters
    ]


def _build_filter(one: SubscriptionFilter) -> EventFilter:
    return EventFilter(
        kinds=tuple(one.kinds or ()),
        model_name=one.model_name,
        model_version=one.model_version,
        from_state=one.from_state,
        to_state=one.to_state,
        transition=one.transition,
    )


def _show_delivery(row: DeliveryRow) -> Delivery:
    return Delivery(
        delivery_id=row.id,
        event_id=f"{row.position.transaction}:{row.position.entity}",
        type=f"statewright.{row.type}",
        subject=EntityId(row.position.entity),
        attempt=row.attempt,
        status=row.status,
        at=to_rfc3339(row.tried_at),
        next_at=None if row.next_at is None else to_rfc3339(row.next_at),
        http_status=row.http_status,
        duration_ms=row.duration_ms,
        error=row.error,
        answer=row.answer,
    )
