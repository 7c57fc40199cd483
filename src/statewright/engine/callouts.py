"""What the engine asks of calculation members, and how a callout is put together (spec/workflows.md §11.2)."""

from collections.abc import Awaitable, Collection
from typing import Protocol

from msgspec import Struct

from statewright.compute.callout import Callout, CalloutKind, Reply
from statewright.conditions import Function
from statewright.engine.run import Run
from statewright.engine.subject import Subject
from statewright.identity import IdSource
from statewright.storage.unit_of_work import UnitOfWork
from statewright.workflow import Processor, ScheduleFunction, Transition


class Callouts(Protocol):
    """Whoever brings a callout to a calculation member and waits for its answer."""

    def dispatch(self, callout: Callout, *, avoiding: Collection[str] = ()) -> Awaitable[Reply]:
        """The reply of a member, preferably none of those to be avoided.

        Raises ``NoComputeMember``, ``DispatchTimeout`` or ``ComputeMemberDisconnected``.
        """
        ...


class Tokens(Protocol):
    """Whoever lets callbacks into a transaction."""

    def token(self, unit: UnitOfWork) -> str:
        """A token with which a callback joins the unit."""
        ...


class Request(Struct, frozen=True, kw_only=True):
    """The part of a callout that its definition decides."""

    kind: CalloutKind
    name: str
    tags: tuple[str, ...]
    tags_text: str
    timeout_ms: int
    context: str
    attach_entity: bool
    target: str = ""


def processor_request(processor: Processor) -> Request:
    """The callout that a processor definition describes."""
    config = processor.config
    return Request(
        kind="processor",
        name=processor.name,
        tags=config.tags,
        tags_text=config.calculation_nodes_tags,
        timeout_ms=config.timeout_ms,
        context=config.context,
        attach_entity=config.attach_entity,
    )


def criterion_request(function: Function, *, target: str) -> Request:
    """The callout that an external criterion describes; ``target`` is ``WORKFLOW`` or ``TRANSITION``."""
    return Request(
        kind="criteria",
        name=function.name,
        tags=function.tags,
        tags_text=function.tags_text,
        timeout_ms=function.timeout_ms,
        context=function.context,
        attach_entity=function.attach_entity,
        target=target,
    )


def function_request(function: ScheduleFunction) -> Request:
    """The callout that decides when a scheduled transition fires."""
    return Request(
        kind="function",
        name=function.name,
        tags=function.tags,
        tags_text=function.calculation_nodes_tags,
        timeout_ms=function.timeout_ms,
        context=function.context,
        attach_entity=function.attach_entity,
    )


class Desk(Struct, frozen=True, kw_only=True):
    """Where callouts leave from: puts them together, and lets go of the transaction while they are under way."""

    callouts: Callouts
    tokens: Tokens
    ids: IdSource

    async def ask(
        self,
        request: Request,
        run: Run,
        subject: Subject,
        transition: Transition | None,
        *,
        avoiding: Collection[str] = (),
    ) -> Reply:
        """The reply to a callout inside the run's transaction, which its callbacks may join.

        ``transition`` is None while a workflow is being selected. Raises what ``Callouts.dispatch`` raises.
        """
        token = self.tokens.token(run.unit)
        callout = self._callout(request, run, subject, transition, transaction_id=run.unit.id, token=token)
        async with run.unit.callout():
            return await self.callouts.dispatch(callout, avoiding=avoiding)

    async def ask_outside(
        self,
        request: Request,
        run: Run,
        subject: Subject,
        transition: Transition | None,
        *,
        avoiding: Collection[str] = (),
    ) -> Reply:
        """The reply to a callout outside any transaction; its callbacks are requests of their own."""
        callout = self._callout(request, run, subject, transition, transaction_id="", token=None)
        return await self.callouts.dispatch(callout, avoiding=avoiding)

    def _callout(
        self,
        request: Request,
        run: Run,
        subject: Subject,
        transition: Transition | None,
        *,
        transaction_id: str,
        token: str | None,
    ) -> Callout:
        return Callout(
            kind=request.kind,
            request_id=self.ids(),  # a new one for each attempt: a late answer to another must not be taken for its own
            tenant=run.unit.tenant,
            name=request.name,
            tags=request.tags,
            tags_text=request.tags_text,
            timeout_ms=request.timeout_ms,
            entity_id=subject.id,
            workflow=run.workflow.name,
            transition=transition.name if transition else "",
            state_from=subject.state if transition else "",
            state_to=transition.next if transition else "",
            target=request.target,
            transaction_id=transaction_id,
            parameters=request.context,
            payload=subject.payload() if request.attach_entity else None,
            principal=run.unit.principal,
            tx_token=token,
        )
