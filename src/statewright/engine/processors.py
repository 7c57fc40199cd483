"""The pipeline of processors of a firing transition (spec/workflows.md §10)."""

import asyncio
from typing import assert_never

from msgspec import UNSET, Struct

from statewright import logs
from statewright.compute.callout import Reply, Unanswered
from statewright.engine import events
from statewright.engine.callouts import Desk, processor_request
from statewright.engine.run import Run
from statewright.engine.subject import Subject
from statewright.failures import ComputeMemberDisconnected, DispatchTimeout, Failure, NoComputeMember, WorkflowFailed
from statewright.jsonval.codec import MalformedJson
from statewright.workflow import Processor, Transition

log = logs.logger("engine")


class Retry(Struct, frozen=True, kw_only=True):
    """How often and how far apart a callout with the policy ``FIXED`` is tried (decision W7)."""

    attempts: int = 3
    delay_ms: int = 500


class Pipeline(Struct, frozen=True, kw_only=True):
    """Runs the processors of a transition one after the other, each on what the one before left."""

    desk: Desk
    retry: Retry
    checks_output: bool = False

    async def process(self, run: Run, subject: Subject, transition: Transition) -> Subject:
        """The subject after all processors of ``transition``.

        Raises ``WorkflowFailed``, ``NoComputeMember`` or ``ComputeMemberDisconnected``; the caller then drops the unit.
        At a segment boundary also what committing raises.
        """
        if not transition.processors:
            return subject
        run.record(events.paused([processor.name for processor in transition.processors], subject.state))
        for processor in transition.processors:
            subject = await self._in_its_mode(run, subject, transition, processor)
        return subject

    async def _in_its_mode(self, run: Run, subject: Subject, transition: Transition, processor: Processor) -> Subject:
        if processor.type == "internalized":
            raise _failed(processor, 'execution type "internalized" is not yet implemented')
        success = True
        match processor.mode:
            case "SYNC" | "ASYNC_SAME_TX":
                reply = await self._ask(run, subject, transition, processor)
                subject = self._applied(run, processor, reply, subject)
            case "ASYNC_NEW_TX":
                success = await self._ask_apart(run, subject, transition, processor)
            case "COMMIT_BEFORE_DISPATCH":
                subject = await self._ask_between_segments(run, subject, transition, processor)
            case _ as mode:
                assert_never(mode)
        run.record(events.processed(processor.name, subject.state, mode=processor.execution_mode, success=success))
        return subject

    async def _ask(self, run: Run, subject: Subject, transition: Transition, processor: Processor) -> Reply:
        """The successful reply to a callout inside the transaction. Raises the failure of the whole run otherwise."""
        try:
            reply = await self._attempts(run, subject, transition, processor)
        except DispatchTimeout as late:
            raise _failed(processor, late.message, cause=late.code) from late
        except NoComputeMember as nobody:
            raise NoComputeMember(f"processor {processor.name} failed: {nobody.message}") from nobody
        return _successful(run, processor, reply)

    async def _ask_apart(self, run: Run, subject: Subject, transition: Transition, processor: Processor) -> bool:
        """Ask inside a savepoint: any failure undoes what the callbacks did, and the run goes on (§10.4)."""
        async with run.unit.savepoint() as savepoint:
            try:
                reply = await self._ask(run.within(savepoint), subject, transition, processor)
                applied(processor, reply, subject)  # it is discarded, and has to be one all the same
                await savepoint.commit()
            except Failure as failure:
                run.unit.warnings += savepoint.warnings
                log.warning(
                    "processor_rolled_back",
                    processor=processor.name,
                    transition=transition.name,
                    error=failure.detail,
                )
                return False
        return True

    async def _ask_between_segments(
        self, run: Run, subject: Subject, transition: Transition, processor: Processor
    ) -> Subject:
        """Commit the state before the callout, ask, and go on in a segment that must find the entity unchanged (§10.5).

        The pre-callout state stays durable whatever happens to the callout; its failure is on record.
        """
        if not run.unit.may_segment:
            raise _failed(processor, "a request that joins a transaction must not commit a segment of it")
        await run.commit_segment(subject, self.desk.ids.transaction())
        try:
            reply = await self._attempts(run, subject, transition, processor)
            return self._applied(run, processor, _successful(run, processor, reply), subject)
        except (DispatchTimeout, ComputeMemberDisconnected) as lost:
            failure: Failure = _failed(processor, lost.message, cause=lost.code)
        except NoComputeMember as nobody:
            failure = NoComputeMember(f"processor {processor.name} failed: {nobody.message}")
        except WorkflowFailed as refused:
            failure = refused
        await run.abandon(events.process_failed(transition.name, failure.message, subject.state))
        raise failure

    def _applied(self, run: Run, processor: Processor, reply: Reply, subject: Subject) -> Subject:
        """The subject with the processor's document, which must fit the model if that is demanded (decision W13)."""
        answered = applied(processor, reply, subject)
        if self.checks_output and answered is not subject:
            try:
                run.model.documents.accept(run.unit, answered.document)
            except Failure as misfit:
                reason = f"the returned document does not fit the model: {misfit.message}"
                raise _failed(processor, reason, cause=misfit.code) from misfit
        return answered

    async def _attempts(self, run: Run, subject: Subject, transition: Transition, processor: Processor) -> Reply:
        """The reply of the first attempt that may not be repeated, or of the last one (decision W7)."""
        request = processor_request(processor)
        separate = processor.mode == "COMMIT_BEFORE_DISPATCH"
        ask = self.desk.ask_outside if separate and not processor.starts_new_tx else self.desk.ask
        attempts_left = self.retry.attempts if processor.config.retry == "FIXED" else 1
        silent: list[str] = []
        while True:
            attempts_left -= 1
            try:
                return await ask(request, run, subject, transition, avoiding=silent)
            except (NoComputeMember, ComputeMemberDisconnected, DispatchTimeout) as failure:
                if not attempts_left or not (separate or nothing_was_done(failure)):
                    raise
                silent += [failure.member_id] if isinstance(failure, Unanswered) else []
            await asyncio.sleep(self.retry.delay_ms / 1000)


def nothing_was_done(failure: Failure) -> bool:
    """Whether the request surely never reached a member, so that another attempt repeats nothing."""
    return isinstance(failure, NoComputeMember) or (
        isinstance(failure, ComputeMemberDisconnected) and not failure.written
    )


def applied(processor: Processor, reply: Reply, subject: Subject) -> Subject:
    """The subject with the document the processor returned; without a new one it stays as it is (§10.2).

    Raises ``WorkflowFailed`` for a document that cannot be kept.
    """
    if reply.data is UNSET:
        return subject
    try:
        return subject.with_answer(reply.data)
    except MalformedJson as defect:
        raise _failed(processor, f"the returned document cannot be used: {defect}") from defect


def _successful(run: Run, processor: Processor, reply: Reply) -> Reply:
    run.unit.warnings += [f"processor {processor.name}: {warning}" for warning in reply.warnings]
    if not reply.success:
        raise _failed(processor, f"processor dispatch failed: {reply.error or 'processor returned failure'}")
    return reply


def _failed(processor: Processor, reason: str, *, cause: str | None = None) -> WorkflowFailed:
    return WorkflowFailed(f"processor {processor.name} failed: {reason}", {"cause": cause} if cause else None)
