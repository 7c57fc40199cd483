"""Subscriptions and their deliveries in the database (docs/reference/operations.md#subscriptions).

One node works on a subscription, by a lease: it makes a delivery of each event that is wanted, together with the
position behind it, and notes what became of attempts. What a node writes whose lease was lost has no effect.
"""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Final

import asyncpg
import msgspec
from msgspec import Struct

from statewright.entity import Actor
from statewright.failures import LimitReached, SubscriptionNotFound
from statewright.ids import EntityId, TenantId, make_uuid7, system_clock
from statewright.instants import to_rfc3339, to_us
from statewright.operations.events import EventPosition, EventRow
from statewright.operations.service import Act
from statewright.operations.subscriptions import MAX_PARKED, MAX_REDELIVERED, MAX_SUBSCRIPTIONS, DeliveryStatus
from statewright.storage.ops.events import COLUMNS, to_row
from statewright.storage.ops.service import build_removal, record_act
from statewright.storage.ops.suspensions import announce_switch, take_revision
from statewright.storage.pool import Pool

RETENTION: Final = timedelta(days=7)
"""Of deliveries that have ended."""


class StoredSubscription(Struct, frozen=True, kw_only=True):
    """A subscription as it is stored; ``plan`` is JSON, ``sealed`` holds its secrets and headers."""

    tenant: TenantId
    id: str
    revision: int
    enabled: bool
    plan: str
    sealed: bytes
    position: EventPosition
    failures: int
    failing_since: int | None
    disabled_reason: str | None
    created_at: int
    created_by: Actor
    parked: int = 0
    is_starting: bool = False
    """Whether some nodes may not record for it yet."""


_FIELDS: Final = """tenant, id, revision, enabled, plan, sealed, at, transaction_id, entity, failures, failing_since,
             disabled_reason, created_at, created_by_id, created_by_kind"""

_STATE: Final = f"""
    (SELECT count(*) FROM (SELECT FROM event_delivery AS one
                            WHERE one.tenant = event_subscription.tenant AND one.subscription = event_subscription.id
                              AND one.status IN ('PENDING', 'RETRYING') LIMIT {MAX_PARKED + 1}) AS counted) AS parked,
    EXISTS (SELECT FROM event_recording AS recording
             WHERE recording.tenant = event_subscription.tenant AND recording.since IS NULL) AS is_starting
"""  # noqa: S608 - a number


def _to_subscription(row: asyncpg.Record) -> StoredSubscription:
    return StoredSubscription(
        tenant=TenantId(row["tenant"]),
        id=str(row["id"]),
        revision=row["revision"],
        enabled=row["enabled"],
        plan=row["plan"],
        sealed=row["sealed"],
        position=EventPosition(row["at"], str(row["transaction_id"]), str(row["entity"])),
        failures=row["failures"],
        failing_since=row["failing_since"],
        disabled_reason=row["disabled_reason"],
        created_at=row["created_at"],
        created_by=Actor(row["created_by_id"], row["created_by_kind"]),
        parked=row.get("parked", 0),
        is_starting=row.get("is_starting", False),
    )


COUNT: Final = "SELECT count(*) FROM event_subscription WHERE tenant = $1"

ADD: Final = f"""
    INSERT INTO event_subscription ({_FIELDS})
    VALUES ($1, $2, 1, $3, $4, $5, CASE WHEN $6::bigint < 0 THEN now_us() ELSE $6 END, $7, $8, 0, NULL, NULL, now_us(),
            $9, $10)
 RETURNING {_FIELDS}, 0 AS parked
"""  # noqa: S608 - a constant

SUBSCRIBED: Final = """
    -- A tenant with subscriptions records, also while they are disabled: then they can go on where they were.
    INSERT INTO event_recording AS recording (tenant, enabled, subscribed, revision)
    VALUES ($1, false, $2, $3)
        ON CONFLICT (tenant) DO UPDATE
       SET subscribed = excluded.subscribed, revision = excluded.revision,
           since = CASE WHEN recording.enabled THEN recording.since END
     WHERE recording.subscribed <> excluded.subscribed
 RETURNING revision
"""


class NewSubscription(Struct, frozen=True, kw_only=True):
    """A subscription to be stored; ``position`` None: from now on."""

    id: str
    enabled: bool
    plan: str
    sealed: bytes
    position: EventPosition | None


_NOWHERE: Final = EventPosition(-1, "ffffffff-ffff-ffff-ffff-ffffffffffff", "ffffffff-ffff-ffff-ffff-ffffffffffff")


async def add_subscription(pool: Pool, tenant: TenantId, by: Actor, new: NewSubscription) -> StoredSubscription:
    """Store a subscription, and have the tenant record. Raises ``LimitReached``."""

    async def act(connection: asyncpg.Connection) -> StoredSubscription:
        revision = await take_revision(connection)  # those who add to it wait for each other here
        if await connection.fetchval(COUNT, tenant) >= MAX_SUBSCRIPTIONS:
            raise LimitReached("subscriptions", MAX_SUBSCRIPTIONS)
        at, transaction, entity = new.position or _NOWHERE
        found = (new.enabled, new.plan, new.sealed, at, transaction, entity, by.id, by.kind)
        row = await connection.fetchrow(ADD, tenant, new.id, *found)
        await connection.fetchval(SUBSCRIBED, tenant, True, revision)
        assert row is not None, "what is inserted is returned"  # noqa: S101
        made = _to_subscription(row)
        await record_act(connection, tenant, by, _build_act("subscription.create", made))
        await announce_switch(connection, revision)
        return made

    return await pool.transact(act)


DELETE_DELIVERIES: Final = "DELETE FROM event_delivery WHERE tenant = $1 AND subscription = $2"
DELETE: Final = f"""
    DELETE FROM event_subscription WHERE tenant = $1 AND id = $2 RETURNING {_FIELDS}
"""  # noqa: S608 - a constant


async def delete_subscription(pool: Pool, tenant: TenantId, by: Actor, id_: str) -> StoredSubscription:
    """Remove a subscription; with the last one the tenant stops recording for them. Raises
    ``SubscriptionNotFound``.
    """

    async def act(connection: asyncpg.Connection) -> StoredSubscription:
        revision = await take_revision(connection)
        row = await connection.fetchrow(DELETE, tenant, id_)
        if row is None:
            raise SubscriptionNotFound("no subscription has this id")
        await connection.execute(DELETE_DELIVERIES, tenant, id_)
        if not await connection.fetchval(COUNT, tenant):
            await connection.fetchval(SUBSCRIBED, tenant, False, revision)
        ended = _to_subscription(row)
        await record_act(connection, tenant, by, _build_act("subscription.delete", ended))
        await announce_switch(connection, revision)
        return ended

    return await pool.transact(act)


LIST: Final = f"""
    SELECT {_FIELDS}, {_STATE} FROM event_subscription
     WHERE tenant = $1 AND ($2::uuid IS NULL OR id > $2) ORDER BY id LIMIT $3
"""  # noqa: S608 - constants
FIND: Final = f"SELECT {_FIELDS}, {_STATE} FROM event_subscription WHERE tenant = $1 AND id = $2"  # noqa: S608


async def list_subscriptions(
    pool: Pool, tenant: TenantId, *, limit: int, after: str | None
) -> list[StoredSubscription]:
    """Up to ``limit``, by id; those behind one."""
    return [_to_subscription(row) for row in await pool.fetch(LIST, tenant, after, limit)]


async def find_subscription(pool: Pool, tenant: TenantId, id_: str) -> StoredSubscription:
    """One of the tenant's. Raises ``SubscriptionNotFound``."""
    row = await pool.fetchrow(FIND, tenant, id_)
    if row is None:
        raise SubscriptionNotFound("no subscription has this id")
    return _to_subscription(row)


CHANGE: Final = f"""
    UPDATE event_subscription
       SET revision = revision + 1, enabled = $4, plan = $5, sealed = $6,
           failures = CASE WHEN $7 THEN 0 ELSE failures END,
           failing_since = CASE WHEN NOT $7 THEN failing_since END,
           disabled_reason = CASE WHEN NOT $4 THEN disabled_reason END
     WHERE tenant = $1 AND id = $2 AND revision = $3
 RETURNING {_FIELDS}, {_STATE}
"""  # noqa: S608 - constants


BEGIN_ANEW: Final = """
    UPDATE event_delivery SET attempt = 0, next_at = now_us()
     WHERE tenant = $1 AND subscription = $2 AND status = 'RETRYING'
"""


async def begin_anew(pool: Pool, tenant: TenantId, id_: str) -> None:
    """Have all attempts that are repeated be made now, as if they were the first."""
    await pool.execute(BEGIN_ANEW, tenant, id_)


async def change_subscription(
    pool: Pool,
    by: Actor,
    before: StoredSubscription,
    *,
    enabled: bool,
    plan: str,
    sealed: bytes,
    begins_anew: bool,
    action: str,
    details: Mapping[str, object],
) -> StoredSubscription | None:
    """Change a subscription as it was read; None when it was changed since. ``begins_anew``: no failure counts that was
    before. ``details`` are for the trail of operators.
    """
    changed = (before.tenant, before.id, before.revision, enabled, plan, sealed, begins_anew)

    async def act(connection: asyncpg.Connection) -> StoredSubscription | None:
        row = await connection.fetchrow(CHANGE, *changed)
        if row is None:
            return None
        if begins_anew:
            await connection.execute(BEGIN_ANEW, before.tenant, before.id)
        after = _to_subscription(row)
        await record_act(connection, before.tenant, by, _build_act(action, after, details))
        return after

    return await pool.transact(act)


class _Named(Struct):
    name: str


_decode_named: Final = msgspec.json.Decoder(_Named).decode


def _build_act(action: str, subscription: StoredSubscription, details: Mapping[str, object] | None = None) -> Act:
    name = _decode_named(subscription.plan).name
    told = {"name": name, "enabled": subscription.enabled, **(details or {})}
    return Act(action=action, target_kind="SUBSCRIPTION", target_id=subscription.id, details=told)


# What a node does that works on a subscription.

CLAIM: Final = f"""
    UPDATE event_subscription SET worker = $1, lease_until = now_us() + $2
     WHERE (tenant, id) IN (
            SELECT tenant, id FROM event_subscription
             WHERE enabled
               AND (lease_until <= now_us()
                    OR NOT EXISTS (SELECT FROM cluster_node
                                    WHERE cluster_node.id = split_part(worker, '/', 1)
                                      AND cluster_node.lease_until > now_us()))
             ORDER BY lease_until
             LIMIT $3 FOR UPDATE SKIP LOCKED)
 RETURNING {_FIELDS}
"""  # noqa: S608 - constants

RENEW: Final = """
    UPDATE event_subscription
       SET lease_until = now_us() + $4, at = $5, transaction_id = $6, entity = $7
     WHERE tenant = $1 AND id = $2 AND worker = $3 AND enabled AND lease_until > now_us()
 RETURNING revision
"""
RELEASE: Final = "UPDATE event_subscription SET lease_until = 0 WHERE tenant = $1 AND id = $2 AND worker = $3"


async def claim_subscriptions(pool: Pool, worker: str, *, lease: timedelta, most: int) -> list[StoredSubscription]:
    """Up to ``most`` that no node works on, now the worker's. What stands before its slash is the node."""
    return [_to_subscription(row) for row in await pool.fetch(CLAIM, worker, to_us(lease), most)]


class Claim(Struct, frozen=True):
    """Which subscription a node works on."""

    tenant: TenantId
    id: str
    worker: str

    @property
    def key(self) -> tuple[str, str, str]:
        """As statements name it."""
        return self.tenant, self.id, self.worker


async def renew(pool: Pool, claim: Claim, position: EventPosition, *, lease: timedelta) -> int | None:
    """Keep a subscription for longer, and note the position; its revision, None when it is another node's, disabled or
    gone.
    """
    revision: int | None = await pool.fetchval(RENEW, *claim.key, to_us(lease), *position)
    return revision


async def release(pool: Pool, claim: Claim) -> None:
    """Nothing of it is under way here any more."""
    await pool.execute(RELEASE, *claim.key)


class WaitingDelivery(Struct, frozen=True, kw_only=True):
    """A delivery that is still to be made; ``row`` is None when its event is not kept any more."""

    id: str
    position: EventPosition
    type: str
    attempt: int
    again: bool
    next_at: int
    row: EventRow | None


ADD_DELIVERIES: Final = """
    WITH owned AS (
        UPDATE event_subscription SET at = $4, transaction_id = $5, entity = $6
         WHERE tenant = $1 AND id = $2 AND worker = $3 AND lease_until > now_us()
     RETURNING tenant, id
    )
    INSERT INTO event_delivery (tenant, subscription, at, transaction_id, entity, id, type, tried_at, next_at)
    SELECT owned.tenant, owned.id, made.at, made.transaction_id, made.entity, made.id, made.type, now_us(), now_us()
      FROM owned
     CROSS JOIN unnest($7::bigint[], $8::uuid[], $9::uuid[], $10::uuid[], $11::text[])
        AS made (at, transaction_id, entity, id, type)
        ON CONFLICT DO NOTHING
 RETURNING id
"""


async def add_deliveries(
    pool: Pool, claim: Claim, position: EventPosition, facts: Sequence[tuple[EventRow, str]]
) -> list[WaitingDelivery]:
    """Make a delivery of each event, and move the position; those that were not made before."""
    made = [
        WaitingDelivery(
            id=str(make_uuid7(system_clock())),
            position=row.position,
            type=type_,
            attempt=0,
            again=False,
            next_at=0,
            row=row,
        )
        for row, type_ in facts
    ]
    columns = zip(*[(*one.position, one.id, one.type) for one in made], strict=True)
    rows = await pool.fetch(ADD_DELIVERIES, *claim.key, *position, *columns)
    new = {str(row["id"]) for row in rows}
    return [one for one in made if one.id in new]


WAITING: Final = f"""
    SELECT one.id AS delivery, one.type, one.attempt, one.again, coalesce(one.next_at, 0) AS next_at,
           one.at AS place_at, one.transaction_id AS place_transaction, one.entity AS place_entity, {COLUMNS}
      FROM event_delivery AS one
      LEFT JOIN event_outbox AS row
        ON row.tenant = one.tenant AND row.at = one.at AND row.transaction_id = one.transaction_id
       AND row.entity = one.entity
      LEFT JOIN model ON model.tenant = row.tenant AND model.id = row.model
     WHERE one.tenant = $1 AND one.subscription = $2 AND one.status IN ('PENDING', 'RETRYING')
     ORDER BY one.at, one.transaction_id, one.entity
     LIMIT $3
"""  # noqa: S608 - a constant


async def load_waiting(pool: Pool, claim: Claim) -> list[WaitingDelivery]:
    """What is still to be delivered, in order."""
    rows = await pool.fetch(WAITING, claim.tenant, claim.id, MAX_PARKED + MAX_REDELIVERED)
    return [
        WaitingDelivery(
            id=str(id_),
            type=type_,
            attempt=attempt,
            again=again,
            next_at=next_at,
            position=EventPosition(at, str(transaction), str(entity)),
            row=None if row[0] is None else to_row(*row),
        )
        for id_, type_, attempt, again, next_at, at, transaction, entity, *row in rows
    ]


class Attempt(Struct, frozen=True, kw_only=True):
    """What came of an attempt; ``next_in_us``: when there is another one."""

    status: DeliveryStatus
    number: int
    duration_ms: int
    next_in_us: int | None = None
    http_status: int | None = None
    error: str | None = None
    answer: str | None = None
    disables: str | None = None
    """Why the subscription is to be disabled."""


NOTE: Final = """
    -- Deliveries are found by their key: by their ids alone all that wait would be looked at.
    WITH owned AS (
        UPDATE event_subscription
           SET failures = CASE WHEN $4 THEN 0 ELSE failures END + $5,
               failing_since = CASE WHEN $5 > 0 THEN coalesce(CASE WHEN NOT $4 THEN failing_since END, now_us()) END
         WHERE tenant = $1 AND id = $2 AND worker = $3 AND lease_until > now_us()
           AND (failures > 0 OR $5 > 0)
     RETURNING failures, failing_since
    ),
    came AS MATERIALIZED (
        SELECT told.*, found.place
          FROM unnest($6::bigint[], $7::uuid[], $8::uuid[], $9::uuid[], $10::text[], $11::int[], $12::int[],
                      $13::bigint[], $14::int[], $15::text[], $16::text[])
            AS told (at, transaction_id, entity, id, status, number, duration_ms,
                     next_in_us, http_status, error, answer)
         CROSS JOIN LATERAL (
                SELECT ctid AS place FROM event_delivery
                 WHERE tenant = $1 AND subscription = $2 AND at = told.at AND transaction_id = told.transaction_id
                   AND entity = told.entity AND id = told.id AND status IN ('PENDING', 'RETRYING')
                   FOR UPDATE) AS found
         WHERE EXISTS (SELECT FROM event_subscription
                        WHERE tenant = $1 AND id = $2 AND worker = $3 AND lease_until > now_us())
    ),
    noted AS (
        UPDATE event_delivery
           SET status = came.status, attempt = came.number, tried_at = now_us(), next_at = now_us() + came.next_in_us,
               http_status = came.http_status, duration_ms = came.duration_ms, error = came.error, answer = came.answer
          FROM came
         WHERE event_delivery.ctid = came.place
     RETURNING event_delivery.id
    )
    SELECT ARRAY(SELECT id::text FROM noted) AS noted, (SELECT failures FROM owned) AS failures,
           (SELECT failing_since FROM owned) AS failing_since, now_us() AS now
"""


class Noted(Struct, frozen=True):
    """What the subscription is like behind some attempts. Of deliveries whose ids are not among ``noted`` another node
    takes care.
    """

    noted: Sequence[str]
    failures: int | None
    failing_since: int | None
    now: int


async def note_attempts(pool: Pool, claim: Claim, came: Sequence[tuple[WaitingDelivery, Attempt]]) -> Noted:
    """Note what came of attempts, in the order of their ends, unless the subscription is another node's by now."""
    failures = [attempt.status != "DELIVERED" for _, attempt in came]
    since_success = failures[::-1].index(False) if False in failures else len(failures)
    columns = zip(
        *[
            (
                *one.position,
                one.id,
                attempt.status,
                attempt.number,
                attempt.duration_ms,
                attempt.next_in_us,
                attempt.http_status,
                attempt.error,
                attempt.answer,
            )
            for one, attempt in came
        ],
        strict=True,
    )
    [row] = await pool.fetch(NOTE, *claim.key, False in failures, since_success, *columns)
    return Noted(**row)


DISABLE: Final = """
    UPDATE event_subscription SET enabled = false, disabled_reason = $4, revision = revision + 1
     WHERE tenant = $1 AND id = $2 AND worker = $3 AND enabled
 RETURNING 1
"""


async def disable(pool: Pool, claim: Claim, reason: str) -> bool:
    """Disable a subscription; whether it was enabled."""
    return await pool.fetchval(DISABLE, *claim.key, reason) is not None


LIST_DELIVERIES: Final = """
    SELECT id, at, transaction_id, entity, type, status, attempt, tried_at, next_at, http_status, duration_ms, error,
           answer
      FROM event_delivery
     WHERE tenant = $1 AND subscription = $2
       AND ($3::text[] IS NULL OR status = ANY ($3))
       AND ($4::uuid IS NULL OR entity = $4)
       AND at >= coalesce($5::bigint, 0) AND at < coalesce($6::bigint, 9223372036854775807)
       AND ($7::bigint IS NULL OR (at, transaction_id, entity) < ($7, $8, $9))
     ORDER BY at DESC, transaction_id DESC, entity DESC
     LIMIT $10
"""


class DeliveryRow(Struct, frozen=True, kw_only=True):
    """A delivery as it is stored."""

    id: str
    position: EventPosition
    type: str
    status: DeliveryStatus
    attempt: int
    tried_at: int
    next_at: int | None
    http_status: int | None
    duration_ms: int | None
    error: str | None
    answer: str | None


class DeliveryFilter(Struct, frozen=True, kw_only=True):
    """Which deliveries are wanted; None: whatever it is."""

    statuses: Sequence[str] | None = None
    subject: EntityId | None = None
    since: int | None = None
    before: int | None = None


async def list_deliveries(
    pool: Pool, tenant: TenantId, id_: str, wanted: DeliveryFilter, *, limit: int, after: EventPosition | None
) -> list[DeliveryRow]:
    """Up to ``limit``, those of the newest events first."""
    filters = (wanted.statuses, wanted.subject, wanted.since, wanted.before)
    rows = await pool.fetch(LIST_DELIVERIES, tenant, id_, *filters, *(after or (None, None, None)), limit)
    return [
        DeliveryRow(
            id=str(row["id"]),
            position=EventPosition(row["at"], str(row["transaction_id"]), str(row["entity"])),
            **{name: row[name] for name in _SHOWN},
        )
        for row in rows
    ]


_SHOWN: Final = (
    *("type", "status", "attempt", "tried_at", "next_at", "http_status", "duration_ms", "error", "answer"),
)

REQUEUE: Final = """
    WITH chosen AS (
        SELECT tenant, subscription, at, transaction_id, entity FROM event_delivery
         WHERE tenant = $1 AND subscription = $2 AND status IN ('DELIVERED', 'DEAD')
           AND ($3::uuid[] IS NULL OR id = ANY ($3))
           AND at >= coalesce($4::bigint, 0) AND at < coalesce($5::bigint, 9223372036854775807)
         ORDER BY at, transaction_id, entity LIMIT $6
    ),
    requeued AS (
        UPDATE event_delivery AS one
           SET status = 'PENDING', attempt = 0, again = true, next_at = now_us(), error = NULL, http_status = NULL,
               answer = NULL
          FROM chosen
         WHERE (one.tenant, one.subscription, one.at, one.transaction_id, one.entity)
               = (chosen.tenant, chosen.subscription, chosen.at, chosen.transaction_id, chosen.entity)
     RETURNING 1
    ),
    told AS (
        UPDATE event_subscription SET revision = revision + 1 WHERE tenant = $1 AND id = $2
    )
    SELECT count(*) FROM requeued
"""


async def requeue(
    pool: Pool,
    by: Actor,
    subscription: StoredSubscription,
    *,
    ids: Sequence[str] | None,
    since: int | None,
    before: int | None,
) -> int:
    """Have deliveries that have ended made again; how many."""
    tenant, id_ = subscription.tenant, subscription.id

    async def act(connection: asyncpg.Connection) -> int:
        count: int = await connection.fetchval(REQUEUE, tenant, id_, ids, since, before, MAX_REDELIVERED)
        details: dict[str, object] = {"count": count}
        if since is not None:
            details |= {"from": to_rfc3339(since), "to": None if before is None else to_rfc3339(before)}
        await record_act(connection, tenant, by, _build_act("subscription.redeliver", subscription, details))
        return count

    return await pool.transact(act)


REMOVE: Final = build_removal("event_delivery", "status IN ('DELIVERED', 'DEAD') AND tried_at < now_us() - $1::bigint")
"""Uses event_delivery_ended."""
