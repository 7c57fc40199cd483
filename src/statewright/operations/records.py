"""What operations are described with: the common form of records, types that say more than their values show, and
query parameters in the words of OpenAPI.

Objects are open: clients ignore members that they do not know. Closed sets of words are texts for whoever reads them,
because a newer service may know more; only the OpenAPI document lists them.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, Final, Generic, Literal, TypeAlias, TypeVar, get_args, get_origin

from msgspec import Meta, Struct

from statewright.jsonval.values import JsonObject, JsonValue

if TYPE_CHECKING:
    Value: TypeAlias = JsonValue
    Members: TypeAlias = JsonObject
else:  # read before, with exact numbers: msgspec, which knows no recursive types, looks no further
    Value = Any
    Members = dict[str, Any]

ItemT = TypeVar("ItemT")

Instant: TypeAlias = Annotated[str, Meta(extra_json_schema={"format": "date-time"})]
"""RFC 3339, in UTC."""

Uuid: TypeAlias = Annotated[str, Meta(extra_json_schema={"format": "uuid"})]
Int32: TypeAlias = Annotated[int, Meta(extra_json_schema={"format": "int32"})]
Int64: TypeAlias = Annotated[int, Meta(extra_json_schema={"format": "int64"})]
Ulid: TypeAlias = Annotated[str, Meta(extra_json_schema={"pattern": "^[0-9A-HJKMNP-TV-Z]{26}$"})]


class Record(Struct, frozen=True, rename="camel", omit_defaults=True):
    """What is told to clients. A member with a default is left out while it has that."""


class ClosedRecord(Record, frozen=True, kw_only=True):
    """A record whose members are all that there will be."""


class RequestBody(Struct, frozen=True, rename="camel", omit_defaults=True, forbid_unknown_fields=True):
    """What clients send. Members that are not known are refused."""


class Listed(Record, Generic[ItemT], frozen=True, kw_only=True):
    """A page of a list (docs/reference/operations.md#lists)."""

    items: Sequence[ItemT]
    next_cursor: str | None = None
    total: Int32 | None = None
    total_is_lower_bound: bool = False


def name_record(record: object) -> str:
    """What the schema of a record of the operations API is called: as its class, unless that says otherwise
    (``SCHEMA``). What is no record is named already.
    """
    if isinstance(record, str):
        return record
    if get_origin(record) is Listed:
        [item] = map(name_record, get_args(record))
        return f"{item[:-1]}ies" if item.endswith("y") else f"{item}s"
    assert isinstance(record, type)  # noqa: S101 - what else bodies and answers are
    return str(vars(record).get("SCHEMA", f"Ops{record.__name__}"))


def name_words(words: object) -> Meta:
    """That a text is one of the words of a ``Literal``."""
    return Meta(extra_json_schema={"enum": list(get_args(words))})


DEFAULT_LIMIT: Final = 50
MAX_LIMIT: Final = 1000
"""Items of a page."""
MAX_COUNT: Final = 10_000
"""As far as lists are counted."""


class QueryParameter(Struct, frozen=True):
    """A documented query parameter."""

    name: str
    type: Literal["string", "integer", "boolean"]
    description: str
    format: str | None = None
    repeatable: bool = False


class Option(Struct, frozen=True):
    """An option of a command. ``gives`` names the query parameter that has its value, where that is called otherwise;
    ``says`` is its help, where the description of the parameter is not.
    """

    name: str
    gives: str = ""
    says: str = ""
    metavar: str | None = None


class Command(Struct, frozen=True):
    """How an operation is asked for on the command line: words behind ``statewright ops``, help, and the columns of the
    table that shows the records of the answer, or of one ``member`` of it; without columns it is shown as JSON.

    The parameters of the path are arguments. ``has_limit``: the first items are listed, else all.
    """

    words: str
    says: str
    columns: str = ""
    member: str | None = None
    options: tuple[Option, ...] = ()
    has_limit: bool = False


POINT_IN_TIME: Final = QueryParameter(
    "pointInTime", "string", "the instant to look at; RFC 3339, UTC when it has no offset", "date-time"
)
TRANSACTION: Final = QueryParameter("transactionId", "string", "the transaction whose version is wanted", "uuid")
SORT: Final = QueryParameter(
    "sort", "string", "`path` or `@field`, then `:asc` or `:desc`; in order of precedence", repeatable=True
)
LISTING: Final = (
    QueryParameter("limit", "integer", f"1 to {MAX_LIMIT}, {DEFAULT_LIMIT} when absent", "int32"),
    QueryParameter("cursor", "string", "nextCursor of the page before, with the same filters"),
)
"""Of lists that are read page by page."""
PAGING: Final = (*LISTING, QueryParameter("count", "boolean", f"tell the total, too; exact to {MAX_COUNT}"))
"""The same of those that are counted."""
NO_FILTERS: Final = frozenset({"sort", *(query.name for query in PAGING)})
"""What does not say which items are wanted."""


AnswerT_co = TypeVar("AnswerT_co", covariant=True)

Method: TypeAlias = Literal["GET", "POST", "PUT", "PATCH", "DELETE"]
Role: TypeAlias = Literal["ROLE_OPERATOR", "ROLE_ADMIN"]

OPERATOR: Final = "ROLE_OPERATOR"
ADMIN: Final = "ROLE_ADMIN"


class ApiOperation(Struct, Generic[AnswerT_co], frozen=True, kw_only=True):
    """What can be asked for. ``body`` and ``answer`` are records, or names of schemas that are no records.

    ``role`` is the least one that may ask; None: any authenticated principal. ``recording`` says when the
    answer to a request with an idempotency key is recorded, ``is_read`` that it changes nothing, though its method
    might. ``problems`` lists the error codes. ``command`` is the one that is this operation and no more; others are
    written in ``cli/ops``.
    """

    id: str
    method: Method = "GET"
    path: str
    summary: str
    role: Role | None = None
    recording: Literal["commit", "only commit", "transaction", "either", "nothing"] = "transaction"
    is_read: bool = False
    answers_secret: bool = False
    """Then the answer is sealed where it is recorded."""
    query: tuple[QueryParameter, ...] = ()
    headers: tuple[str, ...] = ()
    """That say something of the request, beside those of all requests."""
    body: type[Any] | str | None = None  # whatever record
    body_required: bool = True
    answer: type[AnswerT_co] | str
    status: int = 200
    problems: tuple[str, ...] = ("BAD_REQUEST",)
    command: Command | None = None

    @property
    def filters(self) -> tuple[QueryParameter, ...]:
        """The parameters that say which items of a list are wanted."""
        return tuple(query for query in self.query if query.name not in NO_FILTERS)
