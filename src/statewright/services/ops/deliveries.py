"""Delivering events to the targets of subscriptions (docs/reference/operations.md#delivery).

One node works on a subscription, by a lease. It reads the events that are wanted, makes a delivery of each together
with the position behind it, and sends: to each entity one at a time, in order, and several entities at once. What
became of an attempt is noted before the next event of the entity goes out. A node that dies loses the lease, and the
next one sends what was not noted: receivers tell repetitions by the id of the event.

The deliveries that wait are in memory, ten thousand at most; then no more events are read. What operators change gives
the subscription another revision, by which its node loads it anew.
"""

import asyncio
import random
import secrets
import time
from collections import Counter, deque
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import ExitStack, asynccontextmanager, contextmanager
from datetime import timedelta
from functools import partial
from typing import Final, Literal, Protocol

from msgspec import Struct

from statewright.conditions.search import SentCondition, judge_sent
from statewright.entity import EntityMeta
from statewright.failures import BadRequest, Failure, StorageUnavailable
from statewright.ids import NodeId, TenantId
from statewright.loop.background import LEASE_TIMEOUT, Removal, cancel_all, log_failures, repeat, wait_at_most
from statewright.operations.events import EventPosition, EventRow
from statewright.operations.subscriptions import (
    MAX_PARKED,
    SubscriptionOrder,
    SubscriptionTarget,
    WebhookTest,
)
from statewright.services.core import Caller
from statewright.services.ops.attempts import AttemptNotes, DeliveryPace, judge
from statewright.services.ops.event_texts import Fact
from statewright.services.ops.events import BODIES_AT_ONCE
from statewright.services.ops.subscriptions import BodyFilter, Confidential, Subscriptions, build_filters, decode_plan
from statewright.services.ops.targets import Letter, Outcome, Sender, open_sender
from statewright.storage.ops import subscriptions as stored
from statewright.storage.ops.events import fetch_bodies
from statewright.storage.ops.service import MAX_BATCH, remove_rows
from statewright.storage.ops.subscriptions import Attempt, Claim, StoredSubscription, WaitingDelivery
from statewright.telemetry import logs
from statewright.telemetry.histogram import Histogram

CLAIM_INTERVAL: Final = timedelta(seconds=2)
"""Between looks for subscriptions of other nodes."""

KEEP_S: Final = 1.0
"""Between two renewals of the lease of a subscription, by which its node hears of changes, too."""

LOOK_S: Final = 1.0
READ_AHEAD: Final = 1_000
"""Deliveries that wait while as many are under way as may be; more are made only where those that wait must rest."""

MAX_SUBSCRIPTIONS: Final = 200
"""Of one node at a time."""

FAILING_US: Final = 3_600_000_000
"""How long attempts have to fail until a subscription is disabled."""

AWAY_PAUSE_S: Final = 5.0
"""In which no attempt is made while a broker is away: it would cost each event one of its attempts. Nor where a
subscription is to be disabled and cannot be.
"""

FLUSH_S: Final = 1.0
"""For noting what is sent already when a run ends."""

PAUSE_S: Final = 5.0
"""After a delivery that could not be looked at, since the database was away."""

BUCKETS_S: Final = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 15.0)

SWEEP_INTERVAL: Final = timedelta(minutes=1)

log = logs.logger(__name__)


class WebhookMetrics:
    """Numbers of one process since its start."""

    def __init__(self) -> None:
        self.outcomes: Counter[str] = Counter()
        """Attempts, by what became of the delivery."""
        self.seconds = Histogram(BUCKETS_S)
        """Of attempts."""
        self.lags: dict[tuple[TenantId, str], float] = {}
        """Seconds that the subscriptions of this process are behind."""


class DeliveryReports(Protocol):
    """What operators are told of deliveries that fail."""

    def report_subscription(
        self, tenant: TenantId, kind: Literal["WEBHOOK_FAILED", "SUBSCRIPTION_DISABLED"], id_: str, message: str
    ) -> None:
        """Events of a subscription are not delivered any more, or one of them is not."""
        ...


class SubscriptionRunner:
    """The deliveries of this node."""

    def __init__(
        self, parts: Subscriptions, reports: DeliveryReports, *, node: NodeId, lease: timedelta = LEASE_TIMEOUT
    ) -> None:
        self.parts = parts
        self.reports = reports
        self.lease = lease
        self.metrics = WebhookMetrics()
        self.pace = DeliveryPace()
        self.away_pause_s = AWAY_PAUSE_S
        remove_batch = partial(remove_rows, parts.core.pool, stored.REMOVE, stored.RETENTION)
        self.removal = Removal(remove_batch, MAX_BATCH)
        """Of deliveries."""
        self._node = node
        self._tasks: set[asyncio.Task[None]] = set()
        self._changed = asyncio.Event()

    def wake(self) -> None:
        """There is a subscription that no node works on."""
        self._changed.set()

    async def run(self) -> None:
        """Work until cancelled; other nodes go on then."""
        try:
            await repeat(
                self.run_once, CLAIM_INTERVAL, log=log, failure="subscriptions_not_claimed", wake=self._changed
            )
        finally:
            await cancel_all(self._tasks)

    async def run_once(self) -> None:
        """Begin with subscriptions that no node works on."""
        free = MAX_SUBSCRIPTIONS - len(self._tasks)
        pool, worker = self.parts.core.pool, f"{self._node}/{secrets.token_hex(8)}"  # others than of former rounds
        for found in await stored.claim_subscriptions(pool, worker, lease=self.lease, most=free) if free else ():
            run = SubscriptionRun(self, Claim(found.tenant, found.id, worker), found)
            task = asyncio.create_task(self._work_on(run), name="subscription")
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _work_on(self, run: "SubscriptionRun") -> None:
        claim = run.claim
        try:
            with log_failures(log, "subscription_interrupted", subscription=claim.id):
                await run.carry_out()
        finally:
            self.metrics.lags.pop((claim.tenant, claim.id), None)
        with log_failures(log, "subscription_not_released", subscription=claim.id):  # then its lease ends
            await stored.release(self.parts.core.pool, claim)

    def open_sender(self, plan: SubscriptionOrder, confidential: Confidential) -> Sender:
        """What delivers to the target of a subscription."""
        target = plan.target.reveal(confidential.secrets)
        return open_sender(self.parts.egress, target, confidential.signers, self.parts.core.clock)

    async def send(self, sender: Sender, letter: Letter) -> tuple[Outcome, int]:
        """Send, and tell how many milliseconds it took."""
        began = time.monotonic()
        outcome = await sender.deliver(letter)
        took = time.monotonic() - began
        self.metrics.seconds.observe(took)
        return outcome, int(took * 1000)

    async def sweep(self) -> None:
        """Remove deliveries that ended long ago, until cancelled."""
        await repeat(self.removal.run, SWEEP_INTERVAL, log=log, failure="delivery_sweep_failed", waits_first=True)

    async def test(self, caller: Caller, id_: str) -> WebhookTest:
        """Send a test to the target of a subscription. Raises ``SubscriptionNotFound``."""
        found = await stored.find_subscription(self.parts.core.pool, caller.tenant, id_)
        event = self.parts.events.texts.encode_test(caller.tenant, id_, self.parts.core.clock())
        letter = Letter(tenant=caller.tenant, id=event.id, subject=id_, body=event.text)
        async with _use_sender(self.open_sender(decode_plan(found.plan), self.parts.open(found))) as sender:
            outcome, took = await self.send(sender, letter)
        is_answer = outcome.http_status is not None
        return WebhookTest(
            http_status=outcome.http_status, duration_ms=took, error=None if is_answer else outcome.error
        )


@asynccontextmanager
async def _use_sender(sender: Sender) -> AsyncIterator[Sender]:
    try:
        yield sender
    finally:
        await sender.close()


class _Waiting(Struct):
    """A delivery that waits, until ``due`` by the monotonic clock."""

    delivery: WaitingDelivery
    due: float
    attempt: int


class SubscriptionRun:
    """A subscription as this node works on it."""

    def __init__(self, runner: SubscriptionRunner, claim: Claim, found: StoredSubscription) -> None:
        self.claim = claim
        self._runner = runner
        self._parts = runner.parts
        self._position = found.position
        self._revision = -1
        self._is_ours = True
        self._queues: dict[str, deque[_Waiting]] = {}
        self._size = 0
        self._busy: dict[str, asyncio.Task[None]] = {}
        self._moved = asyncio.Event()
        self._resumes_at = 0.0
        self._following = ExitStack()
        self._is_following = False
        self._notes = AttemptNotes(self._note, lambda: runner.pace.rest_s)
        self._sent: set[str] = set()
        """The entities of what is sent already, and being noted."""
        self._sender: Sender | None = None
        self._used: tuple[SubscriptionTarget, Confidential] | None = None

    async def carry_out(self) -> None:
        """Deliver until the subscription is another node's, disabled or gone. Raises ``StorageUnavailable``."""
        keeping = asyncio.create_task(self._keep(), name="subscription-lease")
        try:
            with self._following:
                known = await self._load()
                while self._is_ours:
                    if known != self._revision:
                        known = await self._load()
                        continue
                    self._start_due()
                    is_behind = await self._read_more()
                    self._start_due()
                    if not is_behind:
                        await self._wait()
        finally:
            with log_failures(log, "deliveries_not_noted", subscription=self.claim.id):  # they are sent again
                await wait_at_most(self._notes.flush(), FLUSH_S)
            await cancel_all({keeping, *self._busy.values()})
            await self._close_sender()

    async def _keep(self) -> None:
        """Renew the lease, and hear of changes."""
        last = time.monotonic()
        while True:
            await asyncio.sleep(KEEP_S)
            now = time.monotonic()
            try:
                revision = await stored.renew(
                    self._parts.core.pool, self.claim, self._position, lease=self._runner.lease
                )
            except StorageUnavailable:
                if now - last > self._runner.lease.total_seconds() / 2:
                    self._give_up()
                    return
                continue
            last = now
            if revision is None:
                self._give_up()
                return
            if revision != self._revision:
                self._revision = revision
                self._moved.set()

    def _give_up(self) -> None:
        self._is_ours = False
        self._moved.set()

    async def _load(self) -> int:
        """Read what is to be done anew, as of the revision that is returned; what is under way goes on."""
        found = await stored.find_subscription(self._parts.core.pool, self.claim.tenant, self.claim.id)
        self._revision = found.revision
        self._plan = decode_plan(found.plan)
        try:
            confidential = self._parts.open(found)
        except BadRequest as sealed:
            await self._disable(sealed.detail)
            return found.revision
        await self._change_sender(self._plan, confidential)
        self._filters = build_filters(self._plan)
        under_way = {entity: self._queues[entity][0] for entity in self._busy if self._queues.get(entity)}
        self._queues, self._size = {}, 0
        now = self._parts.core.clock()
        for entity, head in under_way.items():
            self._add(head, entity)
        known = {head.delivery.id for head in under_way.values()}
        for one in await stored.load_waiting(self._parts.core.pool, self.claim):
            if one.id not in known:
                due = time.monotonic() + max(one.next_at - now, 0) / 1_000_000
                self._add(_Waiting(one, due, one.attempt), one.position.entity)
        return found.revision

    async def _change_sender(self, plan: SubscriptionOrder, confidential: Confidential) -> None:
        """Deliver by what is to be delivered by now. What is under way comes to its end before."""
        if self._sender is not None and self._used == (plan.target, confidential):
            return
        await self._close_sender()
        if self._used is not None and (self._used[0], self._used[1].secrets) != (plan.target, confidential.secrets):
            # What was under way to the former target has failed there, and rests since.
            await stored.begin_anew(self._parts.core.pool, self.claim.tenant, self.claim.id)
        self._sender, self._used = self._runner.open_sender(plan, confidential), (plan.target, confidential)

    async def _close_sender(self) -> None:
        if self._busy:
            await asyncio.wait(self._busy.values())
        if self._sender is not None:
            await self._sender.close()

    def _add(self, waiting: _Waiting, entity: str) -> None:
        self._queues.setdefault(entity, deque()).append(waiting)
        self._size += 1

    async def _read_more(self) -> bool:
        """Make deliveries of what is new, unless enough of them wait; whether there may be more at once. Who is behind
        reads for himself, and new events need not be looked for on his account.
        """
        tenant, events = self.claim.tenant, self._parts.events
        if self._size >= (READ_AHEAD if self._is_sending_most() else MAX_PARKED):
            self._following.close()
            self._tell_lag()
            return False
        portion = await events.read_next(tenant, self._position)
        if portion.is_full:
            self._following.close()
        elif not self._is_following:
            self._following.enter_context(self._follow())
        facts = await self._choose(portion.rows)
        if facts:
            for one in await stored.add_deliveries(self._parts.core.pool, self.claim, portion.until, facts):
                self._add(_Waiting(one, 0.0, 0), one.position.entity)
        self._position = portion.until
        self._tell_lag()
        return portion.is_full

    @contextmanager
    def _follow(self) -> Iterator[None]:
        self._is_following = True
        try:
            with self._parts.events.attend(self.claim.tenant):
                yield
        finally:
            self._is_following = False

    def _tell_lag(self) -> None:
        lag = (self._parts.core.clock() - self._position.at) / 1_000_000
        self._runner.metrics.lags[self.claim.tenant, self.claim.id] = max(lag, 0.0)

    async def _choose(self, rows: Sequence[EventRow]) -> Sequence[Fact]:
        """The events that one of the filters matches, with its condition on the document."""
        events = self._parts.events
        facts = events.choose(rows, [one.events for one in self._filters])
        chosen = {row.position for row, _ in events.choose(rows, [f.events for f in self._filters if not f.predicate])}
        for wanted in self._filters:
            if wanted.predicate:
                asked = [fact for fact in events.choose(rows, [wanted.events]) if fact[0].position not in chosen]
                for start in range(0, len(asked), BODIES_AT_ONCE):
                    chosen |= await self._judge_bodies(
                        wanted, [row for row, _ in asked[start : start + BODIES_AT_ONCE]]
                    )
        return [fact for fact in facts if fact[0].position in chosen]

    async def _judge_bodies(self, wanted: BodyFilter, rows: Sequence[EventRow]) -> set[EventPosition]:
        """The places of those whose document satisfies the condition, or cannot be held against it."""
        core, tenant = self._parts.core, self.claim.tenant
        bodies = await fetch_bodies(core.pool, tenant, rows, with_before=False)
        found: set[EventPosition] = set()
        for row, (body, _) in zip(rows, bodies, strict=True):
            if body.document is None:
                holds = body.is_pruned or body.is_large
            else:
                holds = await self._judge_body(wanted, row, body.document)
            if holds:
                found.add(row.position)
        return found

    async def _judge_body(self, wanted: BodyFilter, row: EventRow, document: str) -> bool:
        core, tenant = self._parts.core, self.claim.tenant
        meta = EntityMeta(
            id=row.entity,
            state=row.state,
            creation_date=0,
            last_update_time=row.at // 1000,
            transition=row.transition or "",
            transaction_id=row.transaction_id,
        )
        try:
            assert wanted.model is not None and wanted.predicate is not None  # noqa: S101, PT018 - one has both
            declared = (await core.get_definition(tenant, wanted.model)).model.declared
            sent = SentCondition(wanted.predicate, declared)
            return await core.computations.compute(tenant, "condition", judge_sent, sent, document, meta)
        except StorageUnavailable:
            raise
        except (Failure, ValueError) as unknown:  # it looks at too much, or at what is not there
            log.info("event_not_judged", subscription=self.claim.id, error=repr(unknown))
            return True

    def _start_due(self) -> None:
        now = time.monotonic()
        if now < self._resumes_at:
            return
        for entity, queue in self._queues.items():
            if self._is_sending_most():
                return
            if entity not in self._busy and queue[0].due <= now:
                task = asyncio.create_task(self._deliver(entity, queue[0]), name="delivery")
                self._busy[entity] = task
                task.add_done_callback(partial(self._finish, entity))

    def _is_sending_most(self) -> bool:
        return len(self._busy) - len(self._sent) >= self._plan.in_flight

    def _finish(self, entity: str, _task: "asyncio.Task[None]") -> None:
        del self._busy[entity]
        if not self._queues.get(entity, True):
            del self._queues[entity]
        self._moved.set()

    async def _wait(self) -> None:
        """For what is new, the end of a delivery, or a change."""
        if not self._is_following:  # enough waits
            await wait_at_most(self._moved.wait(), LOOK_S)
            self._moved.clear()
            return
        moved = asyncio.create_task(self._moved.wait())
        looked = asyncio.create_task(self._parts.events.wait_for_look(LOOK_S))
        try:
            await wait_at_most(asyncio.wait({moved, looked}, return_when=asyncio.FIRST_COMPLETED), LOOK_S)
        finally:
            await cancel_all({moved, looked})
        self._moved.clear()

    async def _deliver(self, entity: str, waiting: _Waiting) -> None:
        try:
            attempt = await self._try(waiting)
            self._sent.add(entity)
            self._moved.set()
            is_noted = await self._notes.add(waiting.delivery, attempt)
        except Exception as error:  # a background task: whatever it is, the delivery waits
            log.warning("delivery_not_noted", delivery=waiting.delivery.id, error=repr(error))
            waiting.due = time.monotonic() + PAUSE_S
            return
        finally:
            self._sent.discard(entity)
        self._runner.metrics.outcomes[attempt.status] += 1
        if not is_noted:
            self._give_up()
            return
        waiting.attempt = attempt.number
        if attempt.status == "RETRYING":
            waiting.due = time.monotonic() + (attempt.next_in_us or 0) / 1_000_000
        else:
            self._remove(entity, waiting)
        if attempt.status == "DEAD":
            self._report_dead(waiting, attempt)

    async def _note(self, came: Sequence[tuple[WaitingDelivery, Attempt]]) -> Sequence[str]:
        """Note what came of attempts; the ids of the deliveries that are still ours."""
        noted = await stored.note_attempts(self._parts.core.pool, self.claim, came)
        if noted.noted:
            reasons = (attempt.disables for _, attempt in came if attempt.disables is not None)
            with log_failures(log, "subscription_not_disabled", subscription=self.claim.id):  # what is noted, is
                await self._disable_if_failing(next(reasons, None), noted)
        return noted.noted

    def _remove(self, entity: str, waiting: _Waiting) -> None:
        queue = self._queues.get(entity)
        if queue and queue[0].delivery.id == waiting.delivery.id:
            queue.popleft()
            self._size -= 1

    def _report_dead(self, waiting: _Waiting, attempt: Attempt) -> None:
        what = f"the event {waiting.delivery.type} of {waiting.delivery.position.entity} was not delivered"
        self._runner.reports.report_subscription(
            self.claim.tenant, "WEBHOOK_FAILED", self.claim.id, f"{what}: {attempt.error}"
        )

    async def _disable_if_failing(self, reason: str | None, noted: stored.Noted) -> None:
        """Disable the subscription for a reason, or since it has failed for long. Where that cannot be done, nothing is
        sent for a while, and what comes of the next attempt is a reason again.
        """
        if reason is None and noted.failures is not None and noted.failing_since is not None:
            fails_long = noted.now - noted.failing_since >= FAILING_US
            if noted.failures >= self._plan.disable_after_failures and fails_long:
                reason = f"{noted.failures} attempts in a row have failed"
        if reason is not None:
            self._resumes_at = time.monotonic() + self._runner.away_pause_s
            await self._disable(reason)

    async def _disable(self, reason: str) -> None:
        """Deliver nothing until an operator enables it again."""
        await stored.disable(self._parts.core.pool, self.claim, reason)
        log.warning("subscription_disabled", subscription=self.claim.id, reason=reason)
        self._runner.reports.report_subscription(
            self.claim.tenant, "SUBSCRIPTION_DISABLED", self.claim.id, f"the subscription is disabled: {reason}"
        )
        self._give_up()

    async def _try(self, waiting: _Waiting) -> Attempt:
        delivery, number = waiting.delivery, waiting.attempt + 1
        if delivery.row is None:
            return Attempt(status="DEAD", number=waiting.attempt, duration_ms=0, error="the event is not kept any more")
        began = time.monotonic()
        await asyncio.sleep(0)
        await asyncio.sleep(self._runner.pace.find_rest(time.monotonic() - began))
        fact = (delivery.row, delivery.type)
        [event] = await self._parts.events.texts.encode(self.claim.tenant, [fact], self._plan.include_body)
        letter = Letter(
            tenant=self.claim.tenant,
            id=event.id,
            subject=delivery.position.entity,
            body=event.text,
            again=delivery.again,
        )
        assert self._sender is not None  # noqa: S101 - loaded before anything is delivered
        outcome, took = await self._runner.send(self._sender, letter)
        if outcome.is_away:
            self._resumes_at = time.monotonic() + self._runner.away_pause_s
        return judge(outcome, number=number, duration_ms=took, chance=random.random())  # noqa: S311
