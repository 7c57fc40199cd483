"""Failures on their way to the incidents, behind the back of the requests that failed
(docs/reference/operations.md#incidents).

A report costs its request a hash and a look into a dictionary. Equal ones are counted together until they are written,
at most a second later. What has no room, or cannot be written, is dropped and counted: a request fails the same way.
"""

import asyncio
from collections import Counter
from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import Final, Literal

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from statewright.engine.unit import Unit
from statewright.entity import ModelKey, Principal, ScheduledTask
from statewright.failures import FailedRun, Failure, StorageUnavailable
from statewright.ids import Clock, TenantId, make_uuid7
from statewright.jsonval.values import quote_name
from statewright.loop.background import repeat
from statewright.operations.incidents import (
    IncidentKind,
    IncidentRow,
    Severity,
    SubjectKind,
    build_title,
    compute_fingerprint,
    hash_subject,
    trim_message,
)
from statewright.operations.queues import QueueKind
from statewright.services.writing import decode_by_size, encode_by_size
from statewright.storage.commit.overlay import StagedPart
from statewright.storage.ops.incidents import INCIDENTS, StagedIncidents, note_timer_failure, write_incidents
from statewright.storage.ops.queues import raise_alert
from statewright.storage.pool import Pool
from statewright.storage.takings import Parked
from statewright.telemetry import logs
from statewright.telemetry.tracing import get_trace_id

MAX_WAITING: Final = 1_000
"""Different incidents that wait to be written."""

WRITE_INTERVAL: Final = timedelta(milliseconds=500)

LAST_WRITE_S: Final = 2.0

_encode = msgspec.json.Encoder().encode

log = logs.logger(__name__)


class RunPayload(Struct, frozen=True, kw_only=True):
    """What a run was asked for, as it is kept."""

    document: msgspec.Raw
    transition: str | None
    ifMatch: str | None = None  # noqa: N815 - as clients read it


class IncidentReports:
    """What is to be written. ``max_payload`` are bytes; ``is_on`` False: nothing is."""

    def __init__(self, pool: Pool, clock: Clock, *, is_on: bool, max_payload: int) -> None:
        self._pool = pool
        self._clock = clock
        self.is_on = is_on
        """Whether incidents are kept."""
        self._max_payload = max_payload
        self._waiting: dict[tuple[str, str, str], IncidentRow] = {}
        self.totals: Counter[IncidentKind] = Counter()
        """Reported failures, by kind."""
        self.dropped = 0
        """Failures that were not stored."""
        self.crowded: frozenset[TenantId] = frozenset()
        """Tenants that had as many open incidents as are kept, when they were counted last."""

    def report_run(self, principal: Principal, failure: Failure) -> None:
        """A run failed, if it was by something outside it, and is not on record."""
        if self.is_on and failure.failed_run is not None and not failure.is_on_record:
            self._add(self._build_run(principal, failure, failure.failed_run))

    def build_run_parts(self, principal: Principal, failure: Failure) -> Mapping[str, StagedPart]:
        """What tells of a failed run, to commit with the event of its failure; nothing where it is to be reported
        without one.
        """
        if not self.is_on or failure.failed_run is None or principal.tenant in self.crowded:
            return {}
        row = self._build_run(principal, failure, failure.failed_run)
        self.totals[row.kind] += 1
        return {INCIDENTS.name: StagedIncidents(rows=(row,))}

    @contextmanager
    def watch_commit(self, parts: MutableMapping[str, StagedPart]) -> Iterator[None]:
        """The length of a commit. What its parts tell of failures counts once it has succeeded, and is written behind
        it where the tenant has as many open incidents as are kept.
        """
        staged = parts.get(INCIDENTS.name)
        if not isinstance(staged, StagedIncidents):
            yield
            return
        withheld = self.withhold(parts)
        yield
        for row in staged.rows:
            self.count_committed(row.kind)
        self.write_behind(withheld)

    def withhold(self, parts: MutableMapping[str, StagedPart]) -> tuple[IncidentRow, ...]:
        """Take the incidents out of what is to be committed, where the tenant has as many open ones as are kept. What
        commits is then to be told to ``write_behind``, which stores repetitions only.
        """
        staged = parts.get(INCIDENTS.name)
        if not isinstance(staged, StagedIncidents) or not any(row.tenant in self.crowded for row in staged.rows):
            return ()
        del parts[INCIDENTS.name]
        return staged.rows

    def write_behind(self, rows: Sequence[IncidentRow]) -> None:
        """Write incidents, which are counted already, when there is time."""
        if self.is_on:
            for row in rows:
                self._add_counted(row)

    def report_swallowed(self, unit: Unit, failure: Failure) -> None:
        """A processor failed whose run goes on."""
        if self.is_on and failure.failed_run is not None:
            row = self._build_run(unit.principal, failure, failure.failed_run, severity="WARNING")
            self._add(replace(row, payload=None))

    async def note_timer(
        self, principal: Principal, task: ScheduledTask, model: str, failure: Failure, *, max_failures: int
    ) -> bool:
        """A scheduled transition of an entity of a ``model`` (name/version) failed. Whether it has failed as often as
        it may (0: there is no limit), and is tried no more. Raises ``StorageUnavailable``.
        """
        if max_failures and not isinstance(failure, StorageUnavailable):
            dead = self._build_timer(principal, task, model, failure, kind="TIMER_DEAD") if self.is_on else None
            if await note_timer_failure(self._pool, task, max_failures=max_failures, incident=dead):
                self.count_committed("TIMER_DEAD")
                return True
        self._add(self._build_timer(principal, task, model, failure, kind="TIMER_FAILED"))
        return False

    def _build_timer(
        self, principal: Principal, task: ScheduledTask, model: str, failure: Failure, *, kind: IncidentKind
    ) -> IncidentRow:
        """What tells of a scheduled transition that failed."""
        run = failure.failed_run
        return self._build_row(
            tenant=task.tenant,
            principal=principal,
            kind=kind,
            subject_id=task.entity,
            state=task.key.state,
            transition=task.key.transition,
            component=run.component if run else None,
            model=model,
            workflow=run.workflow if run else None,
            code=failure.code,
            message=failure.message,
            cause=_find_cause(failure),
        )

    def build_expired_timer(
        self, principal: Principal, task: ScheduledTask, model: str, workflow: str | None, details: str
    ) -> Mapping[str, StagedPart]:
        """What tells of a scheduled transition that was dropped because it came too late; it commits with that."""
        row = self._build_row(
            tenant=task.tenant,
            principal=principal,
            kind="TIMER_EXPIRED",
            subject_id=task.entity,
            state=task.key.state,
            transition=task.key.transition,
            component=None,
            model=model,
            workflow=workflow,
            code="TIMER_EXPIRED",
            message=details,
        )
        return {INCIDENTS.name: StagedIncidents(rows=(row,))}

    def build_parked(self, parked: Parked) -> IncidentRow | None:
        """What tells of work that is not tried any more, and commits with that; None where no incidents are kept."""
        if not self.is_on:
            return None
        at = self._clock()
        step = parked.place if parked.work != "transition" else None
        if step is None and len(parked.steps) == 1:
            [step] = parked.steps
        workflow = parked.definition or parked.workflow
        place = " ".join(each for each in (workflow, step or parked.place) if each)
        message = _write_parked(parked, place)
        return IncidentRow(
            tenant=parked.tenant,
            id=make_uuid7(at),
            kind="POISONED",
            severity="ERROR",
            fingerprint=compute_fingerprint(
                "POISONED", parked.model, workflow, parked.work, step or parked.place, message=""
            ),
            title=build_title(place or parked.noun, message),
            at=at,
            occurrences=1,
            subject_kind="ENTITY" if parked.language is None else "INSTANCE",
            subject_id=parked.owner,
            model=parked.model or "",
            state=parked.state or "",
            code="POISONED",
            message=trim_message(message),
            principal_id="system",
            principal_kind="system",
            attempts=_encode([_describe_taker(taker) for taker in parked.takers]).decode(),
            language=parked.language,
            workflow=workflow,
            transition=parked.place if parked.work == "transition" else None,
            step=step,
            component=parked.work,
        )

    async def report_unserved(self, tenant: TenantId, kind: QueueKind, name: str, at: int) -> bool:
        """A queue has had no worker for too long; whether it is stored, which it is not while another one is open that
        says so. Raises ``StorageUnavailable``.
        """
        is_new = await raise_alert(self._pool, _build_unserved(tenant, kind, name, at))
        if is_new:
            self.count_committed("NO_WORKER")
        return is_new

    def count_parked(self) -> None:
        """Work has been parked."""
        self.count_committed("POISONED")

    def count_committed(self, kind: IncidentKind) -> None:
        """An incident has committed with its cause."""
        if self.is_on:
            self.totals[kind] += 1

    def report_subscription(
        self, tenant: TenantId, kind: Literal["WEBHOOK_FAILED", "SUBSCRIPTION_DISABLED"], id_: str, message: str
    ) -> None:
        """Events of a subscription are not delivered any more, or one of them is not."""
        self._add(
            _build_found(
                tenant, kind, id_, self._clock(), subject_kind="SUBSCRIPTION", title="webhook", message=message
            )
        )

    async def run(self) -> None:
        """Write what comes until cancelled."""
        try:
            await repeat(self.write_once, WRITE_INTERVAL, log=log, failure="incidents_not_written", waits_first=True)
        finally:
            with suppress(Exception):  # the last words of a service that stops
                async with asyncio.timeout(LAST_WRITE_S):
                    await self.write_once()

    async def write_once(self) -> int:
        """Write what waits; how many incidents. Raises ``StorageUnavailable``, ``TimeoutError``: it waits on then."""
        rows, self._waiting = list(self._waiting.values()), {}
        if not rows:
            return 0
        try:
            written = await write_incidents(self._pool, rows)
        except (StorageUnavailable, TimeoutError, asyncio.CancelledError):
            for row in rows:
                self._add_counted(row)
            raise
        except Exception:
            self.dropped += sum(row.occurrences for row in rows)
            raise
        if written < len(rows):
            self.dropped += len(rows) - written
        return written

    def _build_run(
        self, principal: Principal, failure: Failure, run: FailedRun, *, severity: Severity = "ERROR"
    ) -> IncidentRow:
        model = f"{run.model}/{run.version}"
        is_new = run.base_transaction is None
        row = self._build_row(
            tenant=principal.tenant,
            principal=principal,
            kind="RUN_FAILED",
            severity=severity,
            subject_id=hash_subject(model, run.document) if is_new else run.entity_id,
            is_new=is_new,
            state=run.state,
            transition=run.transition or None,
            component=run.component or None,
            model=model,
            workflow=run.workflow,
            code=failure.code,
            message=failure.message,
            cause=_find_cause(failure),
        )
        payload = None
        if len(run.document) <= self._max_payload:  # a long one is not even copied
            asked = RunPayload(document=msgspec.Raw(run.document.encode()), transition=run.requested)
            encoded = _encode(asked)
            payload = encoded.decode() if len(encoded) <= self._max_payload else None
        return replace(
            row,
            entity_transaction=run.base_transaction,
            payload=payload,
            payload_omitted=payload is None,
            attempts=_encode(run.attempts).decode(),
        )

    def _build_row(
        self,
        *,
        tenant: TenantId,
        principal: Principal,
        kind: IncidentKind,
        subject_id: str,
        state: str,
        transition: str | None,
        component: str | None,
        model: str,
        workflow: str | None,
        code: str,
        message: str,
        cause: str | None = None,
        severity: Severity = "ERROR",
        is_new: bool = False,
    ) -> IncidentRow:
        at = self._clock()
        return IncidentRow(
            tenant=tenant,
            id=make_uuid7(at),
            kind=kind,
            severity=severity,
            fingerprint=compute_fingerprint(
                kind, severity, model, workflow, state, transition, component, code, message=message
            ),
            title=build_title(" ".join(part for part in (model, transition, component) if part), message),
            at=at,
            occurrences=1,
            subject_kind="NEW_ENTITY" if is_new else "ENTITY",
            subject_id=subject_id,
            model=model,
            state=state,
            code=code,
            message=trim_message(message),
            principal_id=principal.id,
            principal_kind=principal.kind,
            workflow=workflow,
            transition=transition,
            component=component,
            cause=cause,
            trace_id=get_trace_id(),
        )

    def _add(self, row: IncidentRow) -> None:
        if self.is_on:
            self.totals[row.kind] += 1
            self._add_counted(row)

    def _add_counted(self, row: IncidentRow) -> None:
        known = self._waiting.get(row.key)
        if known is not None:
            newer = row if row.at >= known.at else known
            self._waiting[row.key] = replace(newer, occurrences=known.occurrences + row.occurrences)
        elif len(self._waiting) < MAX_WAITING:
            self._waiting[row.key] = row
        else:
            self.dropped += row.occurrences


def _find_cause(failure: Failure) -> str | None:
    cause = failure.properties.get("cause")
    return cause if isinstance(cause, str) else None


def _build_unserved(tenant: TenantId, kind: QueueKind, name: str, at: int) -> IncidentRow:
    what = "jobs of the type" if kind == "JOB_TYPE" else "callouts for members with the tags"
    message = f"{what} {name or '(any)'} wait, and nobody takes them"
    subject = f"{kind}/{name}"
    return _build_found(
        tenant, "NO_WORKER", subject, at, subject_kind="QUEUE", title="no worker", message=message, component=name
    )


def build_stranded(tenant: TenantId, key: ModelKey, state: str, count: int, at: int) -> IncidentRow:
    """So many entities of a model are in a state that none of its active workflows has."""
    model = f"{key.name}/{key.version}"
    who = "1 entity is" if count == 1 else f"{count} entities are"
    message = f"{who} in the state {quote_name(state)}, which no active workflow has"
    row = _build_found(
        tenant, "STATE_UNKNOWN", model, at, subject_kind="MODEL", title=model, message=message, state=state
    )
    return replace(
        row, model=model, occurrences=count, title=build_title(model, f"no workflow has {quote_name(state)}")
    )


def _build_found(
    tenant: TenantId,
    kind: Literal["NO_WORKER", "STATE_UNKNOWN", "WEBHOOK_FAILED", "SUBSCRIPTION_DISABLED"],
    subject: str,
    at: int,
    *,
    subject_kind: SubjectKind,
    title: str,
    message: str,
    state: str = "",
    component: str | None = None,
) -> IncidentRow:
    """What the service has found by itself, in no request."""
    return IncidentRow(
        tenant=tenant,
        id=make_uuid7(at),
        kind=kind,
        severity="ERROR",
        fingerprint=compute_fingerprint(kind, subject, *([state] if state else ()), message=""),
        title=build_title(title, message),
        at=at,
        occurrences=1,
        subject_kind=subject_kind,
        subject_id=subject,
        model="",
        state=state,
        component=component,
        code=kind,
        message=message,
        principal_id="system",
        principal_kind="system",
    )


def _write_parked(parked: Parked, place: str) -> str:
    nodes = ", ".join(taker.partition(" ")[2] for taker in parked.takers)
    at = place or f"one of {', '.join(parked.steps)}" if parked.steps else place
    name = f"{parked.noun} {parked.name}" + (f" of {at}" if at else "")
    return f"{name}: each node that took it died, stood still, or had its computation killed: {nodes}"


def _describe_taker(taker: str) -> dict[str, object]:
    at, _, node = taker.partition(" ")
    return {"at": int(at), "member": node, "error": "nothing was heard of it any more"}


async def read_run_payload(text: str) -> tuple[bytes, str | None]:
    """The document and the transition of a kept payload."""
    payload = await decode_by_size(text)
    assert isinstance(payload, dict)  # noqa: S101 - as it was encoded
    transition = payload.get("transition")
    return await encode_by_size(payload["document"]), transition if isinstance(transition, str) else None
