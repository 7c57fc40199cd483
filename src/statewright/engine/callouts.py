"""The callouts of the engine: how they are built from definitions, and how they are sent
(docs/reference/workflows.md#requests-to-members).

Trying a callout again by a rule (docs/reference/workflows.md#retries).

An attempt whose rule lets another one follow although a member may have seen it runs in a savepoint of its own, so
what its callbacks wrote is dropped with it. In the pauses nothing is held: neither the gate of the transaction nor a
connection. A run that is cancelled ends in its pauses as it does in its callouts.

Callouts and fired transitions are counted by model, transition, function and tags (docs/reference/metrics.md#runs), as
it happens: a transition that a conflict undoes has fired, too. How many models and names are told apart is bounded; see
:mod:`statewright.telemetry.histogram`.
"""

import asyncio
import random
from collections import Counter
from collections.abc import Awaitable, Collection, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from time import monotonic
from typing import Final, Literal, Protocol, TypeAlias, assert_never

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from statewright.compute.callout import Callout, CalloutKind, CalloutResult, CalloutSpec
from statewright.conditions import Function
from statewright.engine.run import EntityDraft, Run, RunSpans, SwallowedFailureReport
from statewright.engine.unit import RunGuard, Unit
from statewright.entity import ModelKey
from statewright.failures import ComputeMemberDisconnected, DispatchTimeout, FailedAttempt, NoComputeMember
from statewright.ids import IdSource, system_clock
from statewright.telemetry import logs
from statewright.telemetry.histogram import Count, Histogram, LabelTable
from statewright.telemetry.tracing import Span, get_trace
from statewright.workflow import Processor, ScheduleFunction, Transition
from statewright.workflow.retries import RetryCause, RetryRule

BOUNDS_S: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)

RetryOutcome: TypeAlias = Literal["succeeded", "failed", "out_of_time"]
"""What a repeated attempt came to; the last: the time for all attempts ended in the pause before it."""

REFUSED: Final = "refused"
"""Why a callout failed: its function said so."""

_REASONS: Final = ((NoComputeMember, "no_member"), (DispatchTimeout, "timeout"), (ComputeMemberDisconnected, "lost"))


class CalloutObservation:
    """One callout that is under way; ``refuse`` says that the function answered, and that it failed."""

    __slots__ = ("reason",)

    def __init__(self) -> None:
        self.reason: str | None = None

    def refuse(self) -> None:
        """The function has failed."""
        self.reason = REFUSED


class RunMetrics:
    """What the runs of one process do. ``limit``: how many sets of labels a metric has; ``models`` are those that have
    any, by name or ``name/version``; none are all.
    """

    def __init__(self, limit: int = 100, models: Collection[str] = ()) -> None:
        self._models = frozenset(models)
        self.transitions: LabelTable[Count] = LabelTable(limit, Count, self._is_wanted)
        """Fired transitions by model and name."""
        self.callouts: LabelTable[Histogram] = LabelTable(limit, lambda: Histogram(BOUNDS_S), self._is_wanted)
        """Times of callouts by model, kind, name of the function, and tags."""
        self.failures: LabelTable[Count] = LabelTable(limit, Count, self._is_wanted)
        """Failed callouts by the same, and by why."""
        self.retries: Counter[tuple[CalloutKind, str, RetryOutcome]] = Counter()
        """Repeated attempts by kind of callout, by why the one before failed, and by what they came to."""

    def count_transition(self, model: ModelKey, name: str) -> None:
        """A transition has fired."""
        self.transitions.find(f"{model.name}/{model.version}", name).value += 1

    @contextmanager
    def observe_callout(
        self, model: ModelKey, kind: CalloutKind, name: str, tags: Sequence[str]
    ) -> Iterator[CalloutObservation]:
        """Inside the block a callout is under way."""
        labels = (f"{model.name}/{model.version}", kind, name, ",".join(tags))
        observation, begun = CalloutObservation(), monotonic()
        try:
            yield observation
        except Exception as error:
            observation.reason = next((reason for failure, reason in _REASONS if isinstance(error, failure)), "error")
            raise
        finally:
            self.callouts.find(*labels).observe(monotonic() - begun)
            if observation.reason is not None:
                self.failures.find(*labels, observation.reason).value += 1

    def _is_wanted(self, labels: Sequence[str]) -> bool:
        return not self._models or labels[0] in self._models or labels[0].rpartition("/")[0] in self._models


class CalloutTransport(Protocol):
    """Delivers a callout to a calculation member and waits for its result, by way of another node if need be."""

    def dispatch(self, callout: Callout, *, avoiding: Collection[str] = ()) -> Awaitable[CalloutResult]:
        """The result of a member, of one whose id is in ``avoiding`` only if there is no other.

        Raises ``NoComputeMember``, ``DispatchTimeout`` or ``ComputeMemberDisconnected``.
        """
        ...


class TransactionTokenIssuer(Protocol):
    """Issues transaction tokens."""

    def issue_token(self, unit: Unit) -> str:
        """A token with which a callback joins the unit of work."""
        ...


def build_processor_spec(processor: Processor) -> CalloutSpec:
    """The callout that a processor definition describes."""
    config = processor.config
    return CalloutSpec(
        kind="processor",
        name=processor.name,
        tags=config.tags,
        tags_text=config.calculation_nodes_tags,
        timeout_ms=config.timeout_ms,
        context=config.context,
        attach_entity=config.attach_entity,
        execution_mode=processor.mode,
    )


def build_criterion_spec(function: Function, *, target: str) -> CalloutSpec:
    """The callout that an external criterion describes; ``target`` is ``WORKFLOW`` or ``TRANSITION``."""
    return CalloutSpec(
        kind="criteria",
        name=function.name,
        tags=function.tags,
        tags_text=function.tags_text,
        timeout_ms=function.timeout_ms,
        context=function.context,
        attach_entity=function.attach_entity,
        target=target,
    )


def build_function_spec(function: ScheduleFunction) -> CalloutSpec:
    """The callout that decides when a scheduled transition fires."""
    return CalloutSpec(
        kind="function",
        name=function.name,
        tags=function.tags,
        tags_text=function.calculation_nodes_tags,
        timeout_ms=function.timeout_ms,
        context=function.context,
        attach_entity=function.attach_entity,
    )


class CalloutDispatcher(Struct, frozen=True, kw_only=True):
    """Builds callouts and sends them; the gate of the transaction is released while one is under way."""

    transport: CalloutTransport
    tokens: TransactionTokenIssuer
    ids: IdSource
    metrics: RunMetrics = msgspec.field(default_factory=RunMetrics)
    guards: tuple[RunGuard, ...] = ()
    report_swallowed: SwallowedFailureReport = lambda _unit, _failure: None
    spans: RunSpans = RunSpans()

    async def ask(
        self,
        spec: CalloutSpec,
        run: Run,
        draft: EntityDraft,
        transition: Transition | None,
        *,
        joins: bool = True,
        avoiding: Collection[str] = (),
        within_s: float | None = None,
    ) -> CalloutResult:
        """The result of a callout. ``joins``: inside the run's transaction, which its callbacks may join; else outside
        any, and its callbacks are requests of their own.

        ``transition`` is None while a workflow is being selected; ``within_s`` bounds the wait beside the limit that
        the member has. Raises what ``CalloutTransport.dispatch`` raises.
        """
        with self.spans.begin_callout(spec, run, draft, transition) as span:
            self.admit(spec, run)
            await run.unit.prepare_callout()
            token = self.tokens.issue_token(run.unit) if joins else None
            callout = self._build_callout(spec, run, draft, transition, token)
            async with run.unit.release_gate() if joins else nullcontext():
                return _note_result(span, spec, await self._dispatch(callout, run, avoiding, within_s))

    def ask_by_rule(
        self,
        spec: CalloutSpec,
        run: Run,
        draft: EntityDraft,
        transition: Transition | None,
        rule: RetryRule | None,
        *,
        joins: bool = True,
    ) -> Awaitable[CalloutResult]:
        """The same, tried again as the rule says; None: once. ``joins``: inside the run's transaction."""
        if rule is not None:
            repeated = RepeatedCallout(
                dispatcher=self, spec=spec, draft=draft, transition=transition, rule=rule, joins=joins
            )
            return repeated.ask(run)
        return self.ask(spec, run, draft, transition, joins=joins)

    def admit(self, spec: CalloutSpec, run: Run) -> None:
        """Raises the failure of a callout that a guard stops; a run of which a segment is durable goes on."""
        if not run.is_half_done:
            for guard in self.guards:
                guard.admit_callout(run.unit.tenant, spec.tags)

    async def _dispatch(
        self, callout: Callout, run: Run, avoiding: Collection[str], within_s: float | None
    ) -> CalloutResult:
        with self.metrics.observe_callout(run.model.key, callout.kind, callout.name, callout.tags) as observed:
            if within_s is None:
                result = await self.transport.dispatch(callout, avoiding=avoiding)
            else:
                result = await self._dispatch_within(callout, avoiding, within_s)
            if not result.success:
                observed.refuse()
            return result

    async def _dispatch_within(self, callout: Callout, avoiding: Collection[str], within_s: float) -> CalloutResult:
        try:
            async with asyncio.timeout(within_s):
                return await self.transport.dispatch(callout, avoiding=avoiding)
        except TimeoutError as late:
            raise DispatchTimeout(f"{callout.kind} dispatch timed out: the time for all attempts is over") from late

    def _build_callout(
        self,
        spec: CalloutSpec,
        run: Run,
        draft: EntityDraft,
        transition: Transition | None,
        token: str | None,
    ) -> Callout:
        return Callout(
            kind=spec.kind,
            request_id=self.ids(),  # a new one for each attempt: a late answer to another must not be taken for its own
            tenant=run.unit.tenant,
            name=spec.name,
            tags=spec.tags,
            tags_text=spec.tags_text,
            timeout_ms=spec.timeout_ms,
            entity_id=draft.id,
            workflow=run.workflow.name,
            transition=transition.name if transition else "",
            state_from=draft.state if transition else "",
            state_to=transition.next if transition else "",
            target=spec.target,
            transaction_id="" if token is None else run.unit.id,
            parameters=spec.context,
            payload=draft.build_payload() if spec.attach_entity else None,
            principal=run.unit.principal,
            tx_token=token,
            trace=get_trace(),
        )


CALLOUT_FAILED: Final = "CALLOUT_FAILED"
"""The error code of the span of a callout whose member answered that it failed."""


def _note_result(span: Span | None, spec: CalloutSpec, result: CalloutResult) -> CalloutResult:
    if span is not None and not result.success:
        span.fail(CALLOUT_FAILED)
    elif span is not None and spec.kind == "criteria":
        span.set("criteria.matches", result.matches)
    return result


log = logs.logger(__name__)

_Asked = CalloutResult | NoComputeMember | ComputeMemberDisconnected | DispatchTimeout


class RepeatedCallout(Struct, frozen=True, kw_only=True):
    """A callout and the rule by which it is tried again. ``joins``: its callbacks join the transaction of the run."""

    dispatcher: CalloutDispatcher
    spec: CalloutSpec
    draft: EntityDraft
    transition: Transition | None
    rule: RetryRule
    joins: bool

    async def ask(self, run: Run) -> CalloutResult:
        """What the last attempt came to; raises what it raised."""
        rule, loop = self.rule, asyncio.get_running_loop()
        until = None if rule.total_s is None else loop.time() + rule.total_s
        tried: list[str] = []
        failed: list[FailedAttempt] = []
        repeated: RetryCause | None = None
        number = 0
        while True:
            number += 1
            asked = await self._try(run, tried if rule.failover else (), until)
            cause = find_cause(asked)
            self._count(repeated, "succeeded" if cause is None else "failed")
            if cause is not None:
                told = asked.error or "" if isinstance(asked, CalloutResult) else asked.message
                failed.append(FailedAttempt(system_clock(), asked.member_id, told))
            if cause is None or number == rule.attempts or not _may_follow(rule, cause, asked):
                break
            tried += [member] if (member := asked.member_id) else []
            pause_s = rule.compute_pause_s(number, random.random())  # noqa: S311 - spreads load
            log.info(
                "callout_retried",
                kind=self.spec.kind,
                name=self.spec.name,
                attempt=number,
                cause=cause,
                pauseMs=round(pause_s * 1000),
                **run.describe(),
            )
            if not await _pause(run, pause_s, until):
                self._count(cause, "out_of_time")
                break
            repeated = cause
        if isinstance(asked, CalloutResult):
            return asked if asked.success else replace(asked, attempts=tuple(failed))
        raise asked.amend(attempts=tuple(failed))

    async def _try(self, run: Run, avoiding: Collection[str], until: float | None) -> _Asked:
        within_s = None if until is None else max(until - asyncio.get_running_loop().time(), 0)
        try:
            if not (self.joins and self.rule.repeats_work):
                return await self._ask_once(run, avoiding, within_s)
            async with run.unit.open_savepoint() as savepoint:
                reply = await self._ask_once(run.with_unit(savepoint), avoiding, within_s)
                if reply.success:
                    await savepoint.commit()
                return reply
        except (NoComputeMember, ComputeMemberDisconnected, DispatchTimeout) as failure:
            return failure

    def _ask_once(self, run: Run, avoiding: Collection[str], within_s: float | None) -> Awaitable[CalloutResult]:
        return self.dispatcher.ask(
            self.spec, run, self.draft, self.transition, joins=self.joins, avoiding=avoiding, within_s=within_s
        )

    def _count(self, cause: RetryCause | None, outcome: RetryOutcome) -> None:
        if cause is not None:
            self.dispatcher.metrics.retries[self.spec.kind, cause, outcome] += 1


async def _pause(run: Run, pause_s: float, until: float | None) -> bool:
    """Wait, while others may work on the transaction; False when the time for all attempts ends before the pause."""
    left_s = pause_s if until is None else until - asyncio.get_running_loop().time()
    async with run.unit.release_gate():
        await asyncio.sleep(max(min(pause_s, left_s), 0))
    return pause_s < left_s or until is None


def _may_follow(rule: RetryRule, cause: RetryCause, asked: _Asked) -> bool:
    return cause in rule.causes and (not isinstance(asked, CalloutResult) or asked.retryable)


def find_cause(asked: _Asked) -> RetryCause | None:
    """Why an attempt failed; None: it did not."""
    match asked:
        case CalloutResult():
            return None if asked.success else "ERROR"
        case NoComputeMember():
            return "NO_MEMBER"
        case ComputeMemberDisconnected():
            return "DISCONNECTED" if asked.written else "NOT_SENT"
        case DispatchTimeout():
            return "TIMEOUT"
        case _:
            assert_never(asked)
