"""The pipeline of processors of a firing transition (docs/reference/workflows.md#execution-modes)."""

from functools import partial
from typing import assert_never

from msgspec import UNSET, Struct

from statewright.compute.callout import CalloutResult
from statewright.engine import events
from statewright.engine.callouts import CalloutDispatcher, build_processor_spec
from statewright.engine.run import EntityDraft, Run, locate_failure
from statewright.failures import (
    ComputeMemberDisconnected,
    DispatchTimeout,
    Failure,
    NoComputeMember,
    Suspended,
    WorkflowFailed,
)
from statewright.jsonval.codec import MalformedJson
from statewright.loop.background import free_in_parts, run_by_size
from statewright.telemetry import logs
from statewright.workflow import Processor, Transition
from statewright.workflow.retries import NOTHING_DONE, PERHAPS_DONE, RetryRule

log = logs.logger(__name__)


class RetryPolicy(Struct, frozen=True, kw_only=True):
    """How many attempts a callout with the policy ``FIXED`` has, and the pause between two (decision W7)."""

    attempts: int = 3
    delay_ms: int = 500

    def to_rule(self, *, separate: bool) -> RetryRule:
        """As a rule; ``separate``: of a callout between two segments, whose author promised that it may be repeated."""
        delay_s = self.delay_ms / 1000
        return RetryRule(
            attempts=self.attempts,
            delay_s=delay_s,
            max_delay_s=delay_s,
            factor=1,
            jitter=0,
            total_s=None,
            causes=NOTHING_DONE | PERHAPS_DONE if separate else NOTHING_DONE,
        )


class ProcessorRunner(Struct, frozen=True, kw_only=True):
    """Runs the processors of a transition one after the other, each on the draft that the one before left."""

    dispatcher: CalloutDispatcher
    retry: RetryPolicy
    checks_output: bool = False

    async def run_processors(self, run: Run, draft: EntityDraft, transition: Transition) -> EntityDraft:
        """The draft after all processors of ``transition``.

        Raises ``WorkflowFailed``, ``NoComputeMember`` or ``ComputeMemberDisconnected``, and at a segment boundary also
        what committing raises; the unit is then to be dropped.
        """
        if not transition.processors:
            return draft
        run.record(events.build_paused_event([processor.name for processor in transition.processors], draft.state))
        for processor in transition.processors:
            try:
                draft = await self._run_processor(run, draft, transition, processor)
            except Failure as failure:
                raise locate_failure(failure, run, draft, transition, processor.name) from failure.__cause__
        return draft

    async def _run_processor(
        self, run: Run, draft: EntityDraft, transition: Transition, processor: Processor
    ) -> EntityDraft:
        if processor.type == "internalized":
            raise _build_failure(processor, 'execution type "internalized" is not yet implemented')
        reason: str | None = None
        match processor.mode:
            case "SYNC" | "ASYNC_SAME_TX":
                reply = await self._ask(run, draft, transition, processor)
                draft, warnings = await self._apply_and_check(run, processor, reply, draft), reply.warnings
            case "ASYNC_NEW_TX":
                reason, warnings = await self._ask_in_savepoint(run, draft, transition, processor)
            case "COMMIT_BEFORE_DISPATCH":
                draft, warnings = await self._ask_between_segments(run, draft, transition, processor)
            case _ as mode:
                assert_never(mode)
        run.record(
            events.build_processed_event(
                processor.name, draft.state, mode=processor.execution_mode, reason=reason, warnings=warnings
            )
        )
        return draft

    async def _ask(self, run: Run, draft: EntityDraft, transition: Transition, processor: Processor) -> CalloutResult:
        """The successful result of a callout inside the transaction. Raises the failure of the whole run otherwise."""
        try:
            reply = await self._ask_with_retries(run, draft, transition, processor)
        except DispatchTimeout as error:
            raise _build_failure(processor, error.message, cause=error.code) from error
        except NoComputeMember as error:
            raise NoComputeMember(f"processor {processor.name} failed: {error.message}") from error
        return _require_success(run, processor, reply)

    async def _ask_in_savepoint(
        self, run: Run, draft: EntityDraft, transition: Transition, processor: Processor
    ) -> tuple[str | None, tuple[str, ...]]:
        """Call out inside a savepoint: any failure undoes what the callbacks did, and the run goes on
        (docs/reference/workflows.md#async_new_tx). Why it failed, None: it did not; and the member's warnings.
        """
        async with run.unit.open_savepoint() as savepoint:
            try:
                reply = await self._ask(run.with_unit(savepoint), draft, transition, processor)
                await apply_reply(
                    processor, reply, draft
                )  # the document is discarded, and has to be valid all the same
                await savepoint.commit()
            except Suspended:  # an operator wants it not to move, with or without this processor
                raise
            except Failure as failure:
                run.unit.warnings += savepoint.warnings
                self.dispatcher.report_swallowed(
                    run.unit, locate_failure(failure, run, draft, transition, processor.name)
                )
                log.warning(
                    "processor_rolled_back",
                    processor=processor.name,
                    transition=transition.name,
                    error=failure.detail,
                    **run.describe(),
                )
                return failure.message, failure.warnings
        return None, reply.warnings

    async def _ask_between_segments(
        self, run: Run, draft: EntityDraft, transition: Transition, processor: Processor
    ) -> tuple[EntityDraft, tuple[str, ...]]:
        """Commit the state before the callout, call out, and go on in a segment that must find the entity unchanged
        (docs/reference/workflows.md#commit_before_dispatch).

        The pre-callout state stays durable whatever happens to the callout; its failure is on record.
        """
        if not run.unit.may_segment:
            raise _build_failure(processor, "a request that joins a transaction must not commit a segment of it")
        self.dispatcher.admit(build_processor_spec(processor), run)
        draft = await run.commit_segment(draft, self.dispatcher.ids)
        try:
            reply = await self._ask_with_retries(run, draft, transition, processor)
            answer = _require_success(run, processor, reply)
            return await self._apply_and_check(run, processor, answer, draft), answer.warnings
        except (DispatchTimeout, ComputeMemberDisconnected) as error:
            failure: Failure = _build_failure(processor, error.message, cause=error.code)
        except NoComputeMember as error:
            failure = NoComputeMember(f"processor {processor.name} failed: {error.message}")
        except WorkflowFailed as error:
            failure = error
        raise await run.record_outside_segment(
            events.build_process_failed_event(transition.name, failure.message, draft.state, failure.warnings),
            locate_failure(failure, run, draft, transition, processor.name),
        )

    async def _apply_and_check(
        self, run: Run, processor: Processor, reply: CalloutResult, draft: EntityDraft
    ) -> EntityDraft:
        """The draft with the processor's document, which must fit the model if that is demanded (decision W13)."""
        updated = await apply_reply(processor, reply, draft)
        if self.checks_output and updated is not draft:
            try:
                await run.model.documents.accept_by_size(run.unit, updated.document, len(updated.text))
            except Failure as misfit:
                reason = f"the returned document does not fit the model: {misfit.message}"
                raise _build_failure(processor, reason, cause=misfit.code) from misfit
        return updated

    async def _ask_with_retries(
        self, run: Run, draft: EntityDraft, transition: Transition, processor: Processor
    ) -> CalloutResult:
        """The result of the first attempt that may not be repeated, or of the last one (decision W7)."""
        spec = build_processor_spec(processor)
        separate = processor.mode == "COMMIT_BEFORE_DISPATCH"
        joins = not separate or processor.starts_new_tx
        rule = processor.retry or (self.retry.to_rule(separate=separate) if processor.config.retry == "FIXED" else None)
        return await self.dispatcher.ask_by_rule(spec, run, draft, transition, rule, joins=joins)


async def apply_reply(processor: Processor, reply: CalloutResult, draft: EntityDraft) -> EntityDraft:
    """The draft with the document the processor returned; without a new one it stays as it is
    (docs/reference/workflows.md#results-of-processors).

    Raises ``WorkflowFailed`` for a document that cannot be stored.
    """
    if reply.data is UNSET:
        return draft
    try:
        changed = await run_by_size(len(reply.data), partial(draft.with_document, reply.data))
    except MalformedJson as defect:
        raise _build_failure(processor, f"the returned document cannot be used: {defect}") from defect
    free_in_parts(changed.document, len(reply.data))
    return changed


def _require_success(run: Run, processor: Processor, reply: CalloutResult) -> CalloutResult:
    run.tell_warnings("processor", processor.name, reply.warnings)
    if not reply.success:
        reason = f"processor dispatch failed: {reply.error or 'processor returned failure'}"
        raise _build_failure(processor, reason).amend(warnings=reply.warnings, attempts=reply.attempts)
    return reply


def _build_failure(processor: Processor, reason: str, *, cause: str | None = None) -> WorkflowFailed:
    return WorkflowFailed(f"processor {processor.name} failed: {reason}", {"cause": cause} if cause else None)
