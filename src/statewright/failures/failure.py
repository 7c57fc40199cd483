"""The root of all failures, which says what each of them says of itself, and those that belong to no subject: of any
request and its sender, of joined transactions and the storage below them, of calculation members and callouts
(docs/reference/grpc.md#grpc), and of computations that take processes of their own
(docs/reference/service.md#computations).

What does something without a client (a timer, a child, a pushed job) catches ``ComputationKilled``: what was to be done
is not done, and would not be if it were tried again. What a run was asked for that failed by something outside it is
described here, too, as incidents keep it.
"""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import ClassVar, Final, Self

from msgspec import Struct


class FailedAttempt(Struct, frozen=True):
    """An attempt at a callout: when it failed (epoch microseconds), the member that was asked, and what it came to."""

    at: int
    member: str
    error: str


class FailedRun(Struct, frozen=True, kw_only=True):
    """Where a run failed, and what it was asked for.

    ``component`` is the processor or function, empty for a limit of the cascade. ``base_transaction`` is the version of
    the entity that the run began with or has made durable, None when nothing of the entity is stored. ``document`` and
    ``requested`` repeat the run: its document, and the transition to fire, None for a loopback or a creation.
    """

    entity_id: str
    model: str
    version: int
    workflow: str
    state: str
    transition: str
    component: str
    base_transaction: str | None
    document: str
    requested: str | None
    attempts: tuple[FailedAttempt, ...] = ()


Property = str | int | bool | Sequence[str]

MAX_MESSAGE_CHARS: Final = 16_384
"""Characters of a message, which is logged as well as sent, and may quote what the client sent."""


class Failure(Exception):
    """A request that cannot be carried out, for a reason its caller may know.

    Nothing is assigned to one from outside: who knows more of it raises what ``amend`` gives in its place.
    """

    code: ClassVar[str] = "SERVER_ERROR"
    status: ClassVar[int] = 500
    retryable: ClassVar[bool] = False

    failed_run: FailedRun | None = None
    """Where a run failed, when it was by something outside it."""
    is_on_record: bool = False
    """Whether what operators are told of it has been stored."""
    attempts: tuple[FailedAttempt, ...] = ()
    """At a callout that was tried several times."""
    retry_after_s: ClassVar[int | None] = None
    """After how many seconds to try again, where that is known."""
    names_its_code: ClassVar[bool] = False
    """Whether clients of process languages, whose errors have no code, find it in the reason."""

    def __init__(self, message: str, properties: Mapping[str, Property] | None = None) -> None:
        self.message = message if len(message) <= MAX_MESSAGE_CHARS else f"{message[:MAX_MESSAGE_CHARS]}…"
        super().__init__(self.message)
        self.properties: Mapping[str, Property] = properties or {}
        self.warnings: tuple[str, ...] = ()
        """Warnings of members before the failure; sent over gRPC, like those of a success."""

    def amend(
        self,
        *,
        message: str | None = None,
        properties: Mapping[str, Property] | None = None,
        warnings: tuple[str, ...] | None = None,
        attempts: tuple[FailedAttempt, ...] | None = None,
        failed_run: FailedRun | None = None,
        is_on_record: bool | None = None,
    ) -> Self:
        """The failure with more said of it, to be raised in its place: of the same kind, cause and traceback. None
        leaves what is known.
        """
        said = {
            "message": message,
            "properties": properties,
            "warnings": warnings,
            "attempts": attempts,
            "failed_run": failed_run,
            "is_on_record": is_on_record,
        }
        amended = type(self).__new__(type(self), *self.args)  # each kind is constructed in a way of its own
        amended.__dict__ |= self.__dict__ | {name: value for name, value in said.items() if value is not None}
        amended.args = (amended.message,)
        amended.__cause__ = self.__cause__
        return amended.with_traceback(self.__traceback__)

    @property
    def detail(self) -> str:
        """``<CODE>: <message>``, as HTTP and gRPC report it."""
        return f"{self.code}: {self.message}"


def list_kinds(kind: type[Failure] = Failure) -> list[type[Failure]]:
    """The kind and all below it, a parent before its children."""
    return [kind, *(deeper for child in kind.__subclasses__() for deeper in list_kinds(child))]


class BadRequest(Failure):
    """The request is malformed in a way that has no code of its own."""

    code, status = "BAD_REQUEST", 400


class InvalidParameter(BadRequest):
    """A path or query parameter, or a header, does not bind. ``wrong`` says why: ``not a UUID``."""

    def __init__(self, parameter: str, wrong: str = "") -> None:
        text = f"invalid value for parameter '{parameter}'"
        super().__init__(f"{text}: {wrong}" if wrong else text, {"parameter": parameter})


class MissingParameter(BadRequest):
    """A query parameter that is required is absent."""

    def __init__(self, parameter: str) -> None:
        super().__init__(f"missing required parameter '{parameter}'", {"parameter": parameter})


class MethodNotAllowed(BadRequest):
    """The path has other methods, which the header ``Allow`` names."""

    status = 405

    def __init__(self, allowed: Sequence[str] = ("GET",)) -> None:
        super().__init__(f"method not allowed; this path has {', '.join(allowed)}")


class PathNotFound(Failure):
    """There is no such path. All that there are stand in the OpenAPI document, ``/openapi.json``."""

    code, status = "NOT_FOUND", 404

    def __init__(self) -> None:
        super().__init__("there is no such path; /docs shows those there are")


class BodyTooLarge(BadRequest):
    """The body is over the limit of its operation (docs/reference/entities.md#limits)."""

    status = 413


class BodyTooSlow(BadRequest):
    """The body comes more slowly than it must (docs/guides/tls-and-proxies.md#slow-clients)."""

    status = 408


class TooManyRequests(Failure):
    """So many requests of this kind wait already that one more would be at the cost of others."""

    code, status, retryable = "TOO_MANY_REQUESTS", 429, True


class ShareTaken(TooManyRequests):
    """Requests of the same ``source``, a principal, a tenant or an address, have as many connections as it may have."""

    retry_after_s = 1

    def __init__(self, source: str) -> None:
        super().__init__(f"this {source} has as many requests under way as it may have")


class ServiceBusy(Failure):
    """There are as many requests under way on the listener as it takes."""

    code, status, retryable, retry_after_s = "SERVICE_BUSY", 503, True, 1

    def __init__(self) -> None:
        super().__init__("there are as many requests under way as this service takes")


class UnsupportedMediaType(Failure):
    """A patch in another format than JSON, or in no known dialect (docs/reference/entities.md#partial-update)."""

    code, status = "UNSUPPORTED_MEDIA_TYPE", 415


class PreconditionRequired(Failure):
    """A patch must say which version it is for."""

    code, status = "PRECONDITION_REQUIRED", 428


class Unauthorized(Failure):
    """The caller is not authenticated; the cause is written to the log only."""

    code, status = "UNAUTHORIZED", 401

    def __init__(self, message: str = "authentication failed") -> None:
        super().__init__(message)


class Forbidden(Failure):
    """The caller lacks a role, mostly that of administrators, or asks for something of another tenant by a token."""

    code, status = "FORBIDDEN", 403

    def __init__(self, message: str = "forbidden: admin role required, ROLE_ADMIN") -> None:
        super().__init__(message)


class ReadOnly(Failure):
    """The caller may read, and wants to change something (docs/reference/authentication.md#roles)."""

    code, status = "READ_ONLY", 403

    def __init__(self) -> None:
        super().__init__("the caller has ROLE_READ_ONLY, which allows no change")


class HostNotAllowed(Failure):
    """The request came by a name that is none of the service's, where it counts without credentials (decision A5)."""

    code, status = "HOST_NOT_ALLOWED", 421

    def __init__(self, host: str) -> None:
        super().__init__(
            "without credentials this service answers to addresses, localhost and names without a dot, not to"
            f' "{host}"; STATEWRIGHT_ALLOWED_HOSTS names more'
        )


class OriginNotAllowed(Failure):
    """A page of another origin wants to change something, where that counts without credentials (decision A5)."""

    code, status = "ORIGIN_NOT_ALLOWED", 403

    def __init__(self, origin: str) -> None:
        super().__init__(
            f"without credentials a page of {origin} may change nothing here;"
            " STATEWRIGHT_CORS_ALLOWED_ORIGINS names the origins that may"
        )


class HelpTopicNotFound(Failure):
    """There is no such page of help."""

    code, status = "HELP_TOPIC_NOT_FOUND", 404


class NotImplementedHere(Failure):
    """A known operation that this service, or this authentication mode, does not offer."""

    code, status = "NOT_IMPLEMENTED", 501


class ComputationKilled(Failure):
    """The process of a computation ended before it had a result; nothing else did."""

    code, status, names_its_code = "COMPUTATION_KILLED", 400, True
    outcome: ClassVar[str] = "died"
    """What metrics and the log call it."""

    def __init__(self, message: str = "the process that computed this ended before it had a result") -> None:
        super().__init__(message)


class ComputationTooLong(ComputationKilled):
    """It took longer than a computation may (``STATEWRIGHT_COMPUTATION_TIMEOUT``)."""

    code = "COMPUTATION_TOO_LONG"
    outcome = "timeout"

    def __init__(self, limit: timedelta) -> None:
        seconds = limit.total_seconds()
        super().__init__(f"computing this takes longer than {seconds:g} s, which is the limit")
        self.properties = {"limitMs": round(seconds * 1000)}


class ComputationTooLarge(ComputationKilled):
    """It needed more memory than a computation may (``STATEWRIGHT_COMPUTATION_MEMORY``), or its result is too large."""

    code = "COMPUTATION_TOO_LARGE"
    outcome = "memory"

    def __init__(self, limit_bytes: int) -> None:
        super().__init__(f"computing this takes more than {limit_bytes // 2**20} MiB of memory, which is the limit")
        self.properties = {"limitBytes": limit_bytes}


class ComputationsBusy(Failure):
    """So many computations wait, of the tenant or of all, that this one has waited too long, or would."""

    code, status, retryable, retry_after_s = "COMPUTATIONS_BUSY", 503, True, 1
    names_its_code = True

    def __init__(self, reason: str) -> None:
        super().__init__(f"{reason}; try again later")


class TransactionNotFound(Failure):
    """The transaction a token names has ended, or never was."""

    code, status = "TRANSACTION_NOT_FOUND", 404

    def __init__(self) -> None:
        super().__init__("transaction not found or no longer active")


class TransactionExpired(Failure):
    """The transaction token has expired."""

    code, status = "TRANSACTION_EXPIRED", 410

    def __init__(self) -> None:
        super().__init__("transaction token has expired")


class TransactionNodeUnavailable(Failure):
    """The node that owns a callback's transaction cannot be reached (docs/reference/grpc.md#callbacks-to-other-nodes).

    Not retryable: the transaction ends with its node.
    """

    code, status = "TRANSACTION_NODE_UNAVAILABLE", 503


class OutcomeUnknown(Failure):
    """Whether a transaction was committed could not be determined. Repeating the request might do its work twice; an
    entity with the transaction's id proves that it was committed.
    """

    code, status = "STORAGE_UNAVAILABLE", 503

    def __init__(self, transaction: str) -> None:
        super().__init__(
            f"whether transaction {transaction} was committed is not known", {"transactionId": transaction}
        )


class StorageUnavailable(Failure):
    """The database cannot be reached, or has no connection to spare."""

    code, status, retryable = "STORAGE_UNAVAILABLE", 503, True

    def __init__(self, message: str = "storage is not available; try again later") -> None:
        super().__init__(message)


class NoComputeMember(Failure):
    """No connected calculation member of the tenant declares the required tags."""

    code, status, retryable = "NO_COMPUTE_MEMBER_FOR_TAG", 503, True
    member_id = ""


class ComputeMemberDisconnected(Failure):
    """The calculation member's stream ended while it worked on the callout."""

    code, status, retryable = "COMPUTE_MEMBER_DISCONNECTED", 503, True

    def __init__(self, message: str, *, written: bool = True, member_id: str = "") -> None:
        super().__init__(message)
        self.written = written
        """Whether the request had reached the stream, so that the member may have worked on it."""
        self.member_id = member_id
        """The member that was lost; empty when it is not known."""


class ForwardFailed(ComputeMemberDisconnected):
    """Another node, which the calculation member is connected to, was lost while the member worked on the callout."""

    code = "DISPATCH_FORWARD_FAILED"

    def __init__(self, *, written: bool = True, member_id: str = "") -> None:
        super().__init__("forwarding the callout to a peer node failed", written=written, member_id=member_id)


class DispatchTimeout(Failure):
    """The calculation member did not answer in time."""

    code, status, retryable = "DISPATCH_TIMEOUT", 503, True
    member_id = ""
    """The member that did not answer; empty when it is not known."""


class MemberNotFound(Failure):
    """No member with a stream has this id; workers that poll have none."""

    code, status = "MEMBER_NOT_FOUND", 404

    def __init__(self) -> None:
        super().__init__("no connected calculation member has this id")
