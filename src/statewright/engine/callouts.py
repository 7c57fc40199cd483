"""The callouts of the engine: how they are built from definitions, and how they are sent
(docs/reference/workflows.md#requests-to-members).
"""

import asyncio
from collections.abc import Awaitable, Collection
from typing import Protocol

import msgspec
from msgspec import Struct

from statewright.compute.callout import Callout, CalloutKind, CalloutResult
from statewright.conditions import Function
from statewright.engine.failed_runs import SwallowedFailureReport
from statewright.engine.metrics import RunMetrics
from statewright.engine.run import EntityDraft, Run
from statewright.engine.unit import Unit
from statewright.failures import DispatchTimeout
from statewright.ids import IdSource
from statewright.suspensions import ActiveSuspensions
from statewright.tracing import get_trace
from statewright.workflow import Processor, ScheduleFunction, Transition


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


class CalloutSpec(Struct, frozen=True, kw_only=True):
    """The part of a callout that its definition decides."""

    kind: CalloutKind
    name: str
    tags: tuple[str, ...]
    tags_text: str
    timeout_ms: int
    context: str
    attach_entity: bool
    target: str = ""
    execution_mode: str = ""


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
    suspensions: ActiveSuspensions = msgspec.field(default_factory=ActiveSuspensions)
    report_swallowed: SwallowedFailureReport = lambda _unit, _failure: None

    async def ask(
        self,
        spec: CalloutSpec,
        run: Run,
        draft: EntityDraft,
        transition: Transition | None,
        *,
        avoiding: Collection[str] = (),
        within_s: float | None = None,
    ) -> CalloutResult:
        """The result of a callout inside the run's transaction, which its callbacks may join.

        ``transition`` is None while a workflow is being selected; ``within_s`` bounds the wait beside the limit that
        the member has. Raises what ``CalloutTransport.dispatch`` raises.
        """
        self.refuse_suspended(spec, run)
        await run.unit.prepare_callout()
        token = self.tokens.issue_token(run.unit)
        callout = self._build_callout(spec, run, draft, transition, transaction_id=run.unit.id, token=token)
        async with run.unit.release_gate():
            return await self._dispatch(callout, run, avoiding, within_s)

    async def ask_outside(
        self,
        spec: CalloutSpec,
        run: Run,
        draft: EntityDraft,
        transition: Transition | None,
        *,
        avoiding: Collection[str] = (),
        within_s: float | None = None,
    ) -> CalloutResult:
        """The result of a callout outside any transaction; its callbacks are requests of their own.

        Raises what ``CalloutTransport.dispatch`` raises.
        """
        self.refuse_suspended(spec, run)
        await run.unit.prepare_callout()
        callout = self._build_callout(spec, run, draft, transition, transaction_id="", token=None)
        return await self._dispatch(callout, run, avoiding, within_s)

    def refuse_suspended(self, spec: CalloutSpec, run: Run) -> None:
        """Raises ``Suspended`` for a callout that needs a tag which is suspended; a run of which a segment is durable
        goes on.
        """
        suspension = self.suspensions.find_tags(run.unit.tenant, spec.tags)
        if suspension is not None and not run.is_half_done:
            raise self.suspensions.refuse(suspension)

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
        *,
        transaction_id: str,
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
            transaction_id=transaction_id,
            parameters=spec.context,
            payload=draft.build_payload() if spec.attach_entity else None,
            principal=run.unit.principal,
            tx_token=token,
            trace=get_trace(),
        )
