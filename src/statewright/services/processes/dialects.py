"""A process language as its clients know it: what its definitions and instances are called and look like, and what can
be asked of an instance. The interfaces make their routes, schemas and transitions of it.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Final, Generic, Literal, Protocol, TypeAlias, TypeVar

from msgspec import Struct

from statewright.entity import Principal
from statewright.failures import BadRequest, Failure, ProcessNotFound
from statewright.ids import ModelId, TransactionId, model_id
from statewright.instants import to_rfc3339
from statewright.jsonval.values import JsonObject, JsonValue, MemberReader, WantedType, guess_name, quote
from statewright.net import Moment
from statewright.operations.process_nouns import Nouns
from statewright.processes.changes import ExecutionStatus, NodeExecution
from statewright.processes.computing import draw_instance_with, draw_with
from statewright.processes.language import (
    Applied,
    Drawing,
    I,
    InstanceOperation,
    P,
    P_contra,
    ProcessInstance,
    ProcessLanguage,
    Rejection,
)
from statewright.services.builtin import FireRequest
from statewright.services.core import Caller
from statewright.services.processes import advancing, definitions, instances
from statewright.services.processes.advancing import AdvanceResult, parse_instance_id, refuse_joined
from statewright.services.processes.definitions import NewDefinition, Summaries, UploadedDefinition
from statewright.services.processes.documents import check_reason, refuse_unstorable
from statewright.services.processes.hosting import (
    HostedTransition,
    NodeRetry,
    Processes,
    ProcessHost,
    PublishedDefinition,
)
from statewright.services.processes.instances import AbridgedPage, StartRequest, StreamedPage
from statewright.storage.processes.instances import InstanceFilter

S = TypeVar("S")
"""A definition as it is uploaded."""

BodyUse = Literal["none", "optional", "required"]

_NOUNS: Final[Mapping[WantedType, str]] = {
    "object": "an object",
    "array": "an array",
    "string": "a text",
    "int": "an integer",
    "bool": "true or false",
}


class RequestReader(Protocol):
    """The members of what a client sent, by whatever interface."""

    @property
    def document(self) -> JsonObject:
        """All of them, as they were sent."""
        ...

    def get(self, name: str) -> JsonValue:
        """The member as it is; ``None`` when absent."""
        ...

    def text(self, name: str) -> str:
        """A string, empty when absent."""
        ...

    def integer(self, name: str) -> int | None:
        """A signed 64-bit integer; ``None`` when absent."""
        ...

    def number(self, name: str) -> int:
        """An integer, 0 when absent; beyond 32 bits the nearest one within."""
        ...

    def object(self, name: str) -> "JsonObject | None":
        """An object; ``None`` when absent."""
        ...

    def build_refusal(self, member: str, message: str) -> Failure:
        """The failure of a request that lacks a member, or has one that cannot be used."""
        ...


_MAX_TOLD: Final = 10
"""Members that are not known, in a refusal."""
_MAX_CHARS: Final = 60
"""Of each of them."""


def refuse_unknown(body: RequestReader, known: Sequence[str]) -> None:
    """Refuse a request with other members than these, by their names."""
    if unknown := [name for name in body.document if name not in known]:
        told = ", ".join(f"{name[:_MAX_CHARS]} is not known{guess_name(name, known)}" for name in unknown[:_MAX_TOLD])
        raise body.build_refusal(unknown[0][:_MAX_CHARS], f"{told}; expected {', '.join(known)}")


class Demand(Struct, Generic[P, I], frozen=True, kw_only=True):
    """What a client asks of an instance."""

    operation: InstanceOperation[P, I]
    given: JsonValue = None
    """What came from outside."""
    stored: tuple[JsonValue, ...] = ()
    """What of it has to fit into a document."""
    reason: str = ""


ReadDemand: TypeAlias = Callable[[RequestReader, Mapping[str, str]], Demand[P, I]]


class ReasonedOperation(Protocol[P_contra, I]):
    """An operation that takes a reason."""

    def __call__(self, process: P_contra, instance: I, /, *, reason: str, moment: Moment) -> Applied[I] | Rejection: ...


def read_reasoned(operation: ReasonedOperation[P, I]) -> ReadDemand[P, I]:
    """How a verb is read whose operation takes the reason that a body may have."""

    def read(body: RequestReader, _segments: Mapping[str, str]) -> Demand[P, I]:
        reason = body.text("reason")
        return Demand(operation=partial(operation, reason=reason), reason=reason, stored=({"reason": reason},))

    return read


def read_bare(operation: InstanceOperation[P, I]) -> ReadDemand[P, I]:
    """How a verb is read whose operation takes nothing; the reason is for the log."""
    return lambda body, _segments: Demand(operation=operation, reason=body.text("reason"))


class Verb(Struct, Generic[P, I], frozen=True, kw_only=True):
    """Something that clients can ask of an instance: a POST to ``path`` below it, and the transition of this name where
    the model of instances has it open.
    """

    name: str
    summary: str
    read: ReadDemand[P, I]
    """From the members of the body and the segments of the path; raises what the reader raises."""
    id: str = ""
    """Of the operation, in the OpenAPI document; empty: made of the name."""
    kind: str = ""
    """Of the transaction, in the metrics; empty: made of what definitions are called, and the name."""
    path: str = ""
    """Empty: the name."""
    tag: str = ""
    """Empty: that of instances."""
    body: str = ""
    """The schema of the body; empty: there is none."""
    use: BodyUse = "none"
    forgives: bool = False
    """Whether a body that cannot be read counts as an empty one."""
    answers: bool = True
    """With the instance; else with nothing."""
    ends: bool = False
    """Whether it ends an instance, which a suspension does not prevent."""
    unknown: str = ""
    """What is said of an unknown instance; empty: what is always said."""

    @property
    def errors(self) -> tuple[int, ...]:
        """The statuses of its own refusals: those of a body, too, where it has one."""
        if self.use == "none":
            return (404, 409)
        return (404, 409, 413) if self.forgives else (400, 404, 409, 413)


RenderEvent: TypeAlias = Callable[[JsonObject, str, int, int], JsonObject]
"""The record of an event: from what is stored, the id of the instance, its number and its instant."""
DrawingOption = Literal["direction", "docs", "format"]


def _read_start(body: RequestReader, nouns: Nouns) -> StartRequest:
    return StartRequest(
        definition_id=body.text(nouns.definition_member),
        definition_version=body.number(nouns.version_member),
        variables=body.object(nouns.input_member) or {},
        business_key=body.text("businessKey"),
    )


def describe_instance(instance: ProcessInstance) -> JsonObject:
    """What is told of instances whatever their language; members that do not apply are left out."""
    optional: JsonObject = {
        "completedAt": None if instance.completed_at is None else to_rfc3339(instance.completed_at),
        "businessKey": instance.business_key,
    }
    return {
        "id": instance.id,
        "definitionId": instance.definition_id,
        "definitionVersion": instance.definition_version,
        "status": instance.status,
        "startedAt": to_rfc3339(instance.started_at),
        **{name: value for name, value in optional.items() if value is not None},
    }


def _locate(_process: object, line: NodeExecution) -> JsonObject:
    return {"step": line.node_id}


def _keep_operation(operation: InstanceOperation[P, I], _principal: Principal, _reason: str) -> InstanceOperation[P, I]:
    return operation


class DefinitionIntake(Struct, Generic[S], frozen=True, kw_only=True):
    """How definitions are taken in."""

    accept: Callable[[Processes, Caller, S], Awaitable[NewDefinition]]
    """Compiles a definition. Raises ``ProcessBadRequest``, ``ComputationKilled``, ``ComputationsBusy``."""
    checked_members: tuple[str, ...] = ()
    """What of the record of a definition is in the answers to checks and uploads."""


class ProcessDialect(Struct, Generic[S, P, I], frozen=True, kw_only=True):
    """A language as its clients know it: ``S`` is a definition as it is uploaded."""

    language: ProcessLanguage[P, I]
    nouns: Nouns
    verbs: tuple[Verb[P, I], ...]
    intake: DefinitionIntake[S]
    render_definition: Callable[[P], JsonObject]
    """The record that clients read, but for the instant of the upload."""
    draw: Callable[[P, Drawing], "str | JsonObject"]
    """A function at the top of a module, as all that another process computes by; so is ``draw_instance``."""
    draw_instance: Callable[[P, I, Mapping[str, ExecutionStatus], Drawing], str]
    read_start: Callable[[RequestReader, Nouns], StartRequest] = _read_start
    """What a body asks to start; raises what the reader raises."""
    render_instance: Callable[[I], JsonObject] = describe_instance
    locate: Callable[[P, NodeExecution], JsonObject] = _locate
    """Where a line of the history was."""
    render_event: RenderEvent | None = None
    """``None``: instances keep no log, or none that clients read."""
    drawing_options: tuple[DrawingOption, ...] = ()
    """How clients may want diagrams; ``format`` is about those of definitions only."""
    adapt: Callable[[InstanceOperation[P, I], Principal, str], InstanceOperation[P, I]] = _keep_operation
    """An operation on the way to the host, with who asks for it, and the reason."""
    check_start: Callable[[Processes, Caller, P], Awaitable[None]] | None = None
    """May refuse to start an instance of a definition."""
    unknown_definition: str = definitions.NOT_FOUND

    def find_host(self, processes: Processes) -> ProcessHost[P, I]:
        """The host that runs its instances."""
        return processes.hosts.get(self.language)

    def find_verb(self, name: str) -> Verb[P, I]:
        """One that there is."""
        return next(verb for verb in self.verbs if verb.name == name)

    def build_unknown(self, instance_id: str, verb: "Verb[P, I] | None" = None) -> ProcessNotFound:
        """What is said of an unknown instance."""
        default = f"{self.nouns.instance} {quote(instance_id)} not found"
        return ProcessNotFound(default if verb is None else verb.unknown or default)


async def check_definition(
    dialect: ProcessDialect[S, P, I], processes: Processes, caller: Caller, source: S
) -> JsonObject:
    """The record of a definition, which is not stored. Raises as ``DefinitionIntake.accept``."""
    return (await dialect.intake.accept(processes, caller, source)).build_document(0)


async def upload_definition(
    dialect: ProcessDialect[S, P, I], processes: Processes, caller: Caller, source: S
) -> UploadedDefinition:
    """Store a definition as its next version, unless a stored one has the same content. Raises as
    ``DefinitionIntake.accept``.
    """
    refuse_joined(caller)
    new = await dialect.intake.accept(processes, caller, source)
    return await definitions.store(dialect.find_host(processes), caller, new)


async def start_instance(
    dialect: ProcessDialect[S, P, I], processes: Processes, caller: Caller, body: RequestReader
) -> I:
    """Start what a body asks for; it is durable, and as far as it comes without any worker. Raises what reading it
    raises, and as ``instances.start``.
    """
    check = None if dialect.check_start is None else partial(dialect.check_start, processes, caller)
    return await instances.start(
        dialect.find_host(processes), caller, dialect.read_start(body, dialect.nouns), check=check
    )


async def get_version(
    dialect: ProcessDialect[S, P, I], processes: Processes, caller: Caller, definition_id: str, version: int = 0
) -> PublishedDefinition[P]:
    """A version of a definition, the latest for 0 or less. Raises ``ProcessNotFound``."""
    unknown = dialect.unknown_definition
    return await definitions.get_version(
        dialect.find_host(processes), caller.tenant, definition_id, version, unknown=unknown
    )


async def list_definitions(
    dialect: ProcessDialect[S, P, I],
    processes: Processes,
    caller: Caller,
    *,
    keyword: str = "",
    page: int = 0,
    page_size: int = 0,
) -> Summaries:
    """Definitions by id, each with its latest version (``definitions.list_definitions``)."""
    host = dialect.find_host(processes)
    return await definitions.list_definitions(host, caller, keyword=keyword, page=page, page_size=page_size)


async def list_versions(
    dialect: ProcessDialect[S, P, I], processes: Processes, caller: Caller, definition_id: str
) -> Sequence[tuple[int, int]]:
    """All versions of a definition, ascending, each with the instant of its upload. Raises ``ProcessNotFound``."""
    unknown = dialect.unknown_definition
    return await definitions.list_versions(dialect.find_host(processes), caller.tenant, definition_id, unknown=unknown)


async def get_instance(dialect: ProcessDialect[S, P, I], processes: Processes, caller: Caller, instance_id: str) -> I:
    """An instance as it is now. Raises ``ProcessNotFound``."""
    return await instances.get_instance(dialect.find_host(processes), caller, instance_id)


class InstanceQuery(Struct, frozen=True, kw_only=True):
    """Which instances are wanted: those that match all that is given exactly, a page of them."""

    definition_id: str = ""
    status: str = ""
    business_key: str = ""
    page: int = 0
    page_size: int = 0

    @property
    def matching(self) -> InstanceFilter:
        """The same without the page."""
        return InstanceFilter(definition_id=self.definition_id, status=self.status, business_key=self.business_key)


async def list_instances(
    dialect: ProcessDialect[S, P, I], processes: Processes, caller: Caller, wanted: InstanceQuery
) -> AbridgedPage[I]:
    """Instances (``instances.list_abridged_instances``)."""
    host = dialect.find_host(processes)
    return await instances.list_abridged_instances(
        host, caller, wanted.matching, page=wanted.page, page_size=wanted.page_size
    )


async def stream_instances(
    dialect: ProcessDialect[S, P, I], processes: Processes, caller: Caller, wanted: InstanceQuery
) -> StreamedPage[I]:
    """The same, all of them as they are (``instances.stream_instances``)."""
    host = dialect.find_host(processes)
    return await instances.stream_instances(host, caller, wanted.matching, page=wanted.page, page_size=wanted.page_size)


async def get_process_of(dialect: ProcessDialect[S, P, I], processes: Processes, caller: Caller, instance: I) -> P:
    """The version of the definition that an instance is of."""
    found = await get_version(dialect, processes, caller, instance.definition_id, instance.definition_version)
    return found.process


async def draw_definition(
    dialect: ProcessDialect[S, P, I],
    processes: Processes,
    caller: Caller,
    definition_id: str,
    version: int = 0,
    drawing: Drawing = Drawing(),  # noqa: B008
) -> "str | JsonObject":
    """A version of a definition as a diagram. Raises ``ProcessNotFound``."""
    found = await get_version(dialect, processes, caller, definition_id, version)
    draw = partial(draw_with, dialect.draw, drawing)
    return await definitions.draw_by_size(dialect.find_host(processes), caller, found, draw)


async def draw_instance(
    dialect: ProcessDialect[S, P, I],
    processes: Processes,
    caller: Caller,
    instance_id: str,
    drawing: Drawing = Drawing(),  # noqa: B008
) -> str:
    """The definition of an instance as a diagram that shows how far it is. Raises ``ProcessNotFound``."""
    instance = await get_instance(dialect, processes, caller, instance_id)
    found = await get_version(dialect, processes, caller, instance.definition_id, instance.definition_version)
    host = dialect.find_host(processes)
    statuses = await instances.fetch_last_statuses(host, caller, instance_id)
    draw = partial(draw_instance_with, dialect.draw_instance, instance, statuses, drawing)
    return await definitions.draw_by_size(host, caller, found, draw)


async def act(
    dialect: ProcessDialect[S, P, I],
    processes: Processes,
    caller: Caller,
    instance_id: str,
    verb: Verb[P, I],
    demand: Demand[P, I],
    *,
    if_match: str | None = None,
) -> AdvanceResult[I]:
    """Do to an instance what was asked for. Raises ``ProcessNotFound``, ``ProcessBadRequest`` for what cannot be
    stored, and what ``advancing.advance`` raises.
    """
    check_reason(demand.reason)
    for part in demand.stored:
        await refuse_unstorable(part)
    unknown = dialect.build_unknown(instance_id, verb)
    return await advancing.advance(
        dialect.find_host(processes),
        caller,
        parse_instance_id(instance_id, unknown),
        dialect.adapt(demand.operation, caller.principal, demand.reason),
        kind=verb.kind or f"{dialect.nouns.definition}.{verb.name}",
        unknown=unknown,
        given=demand.given,
        if_match=if_match,
        ends=verb.ends,
    )


class TransitionMembers(MemberReader):
    """The document that comes with a transition, whose members are its arguments."""

    def __init__(self, document: JsonObject) -> None:
        self.document = document

    def get(self, name: str) -> JsonValue:
        return self.document.get(name)

    def number(self, name: str) -> int:
        """An integer, 0 when absent."""
        return self.integer(name) or 0

    def build_type_error(self, name: str, value: JsonValue, wanted: WantedType) -> BadRequest:
        return self.build_refusal(name, f"{name} must be {_NOUNS[wanted]}")

    def build_refusal(self, member: str, message: str) -> BadRequest:
        """The failure of a document that lacks a member, or has one that cannot be used."""
        return BadRequest(message, {"parameter": f"/{member}"})


async def ask(
    dialect: ProcessDialect[S, P, I],
    processes: Processes,
    caller: Caller,
    instance_id: str,
    verb: str,
    document: JsonObject,
    *,
    segments: Mapping[str, str] = {},
    if_match: str | None = None,
) -> AdvanceResult[I]:
    """As ``act``, with the arguments of the verb as members of a document, and as segments of its path. Raises
    ``BadRequest`` for those.
    """
    found = dialect.find_verb(verb)
    demand = found.read(TransitionMembers(document), segments)
    return await act(dialect, processes, caller, instance_id, found, demand, if_match=if_match)


def build_node_retry(dialect: ProcessDialect[S, P, I], verb: str, segment: str) -> NodeRetry:
    """How an incident at a node is retried: by a verb, with the node as this segment of its path."""

    async def retry_node(
        processes: Processes, caller: Caller, instance_id: str, node: str, variables: "JsonObject | None"
    ) -> ProcessInstance:
        given: JsonObject = {"variables": variables}
        done = await ask(dialect, processes, caller, instance_id, verb, given, segments={segment: node})
        return done.instance

    return retry_node


def build_transitions(dialect: ProcessDialect[S, P, I]) -> Mapping[ModelId, HostedTransition]:
    """What the open transitions of instances do: what the verbs of their names do."""

    async def fire_transition(processes: Processes, caller: Caller, request: FireRequest) -> TransactionId:
        await refuse_unstorable(request.document)
        asked = request.transition or ""
        done = await ask(
            dialect, processes, caller, request.entity.id, asked, request.document, if_match=request.if_match
        )
        return done.transaction_id

    model = dialect.language.models.instance.key
    return {model_id(model.name, model.version): fire_transition}
