"""What records are made of: their common form, and types that say more than their values show.

Objects are open: clients ignore members that they do not know. Closed sets of words are texts for whoever reads them,
because a newer service may know more; only the OpenAPI document lists them.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, Generic, TypeAlias, TypeVar, get_args

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


class Record(Struct, frozen=True, rename="camel", omit_defaults=True):
    """What is told to clients. A member with a default is left out while it has that."""


class RequestBody(Struct, frozen=True, rename="camel", omit_defaults=True, forbid_unknown_fields=True):
    """What clients send. Members that are not known are refused."""


class Listed(Record, Generic[ItemT], frozen=True, kw_only=True):
    """A page of a list (docs/reference/operations.md#lists)."""

    items: Sequence[ItemT]
    next_cursor: str | None = None
    total: Int32 | None = None
    total_is_lower_bound: bool = False


def name_words(words: object) -> Meta:
    """That a text is one of the words of a ``Literal``."""
    return Meta(extra_json_schema={"enum": list(get_args(words))})
