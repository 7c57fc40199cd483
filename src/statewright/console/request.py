"""A request for a page as page functions see it."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final
from urllib.parse import parse_qsl, quote, urlencode

from msgspec import Struct

from statewright.console.calls import ApiCall, Reply
from statewright.console.client import ApiClient
from statewright.console.counts import KeptCounts
from statewright.console.session import Session
from statewright.console.viewer import Viewer

SIZES: Final = (20, 50, 200)
DEFAULT_SIZE: Final = 50

Pairs = tuple[tuple[str, str], ...]


class InvalidField(ValueError):
    """A field of a form, or a parameter of a page, has no valid value."""

    def __init__(self, field: str, reason: str) -> None:
        super().__init__(f"{field}: {reason}")
        self.field = field
        self.reason = reason


class Fields:
    """Names with values, some repeated, as a query string or a form has them."""

    def __init__(self, pairs: Pairs) -> None:
        self.pairs = pairs

    def get(self, name: str, default: str = "") -> str:
        """The last value of a name."""
        return next((value for key, value in reversed(self.pairs) if key == name), default)

    def get_all(self, name: str) -> tuple[str, ...]:
        """All values of a name, in order."""
        return tuple(value for key, value in self.pairs if key == name)

    def require(self, name: str) -> str:
        """The value of a name. Raises ``InvalidField`` where it is missing or empty."""
        value = self.get(name)
        if not value:
            raise InvalidField(name, "is missing")
        return value

    def get_choice(self, name: str, choices: Sequence[str]) -> str:
        """One of the choices, the first where the name is missing. Raises ``InvalidField``."""
        value = self.get(name, choices[0])
        if value not in choices:
            raise InvalidField(name, f"one of {', '.join(choices)}")
        return value


class Query(Fields):
    """The query string of a page."""

    def size(self) -> int:
        """Rows of a page. Raises ``InvalidField``."""
        return int(self.get_choice("size", (str(DEFAULT_SIZE), *(str(size) for size in SIZES))))

    def change(self, **values: str | None) -> str:
        """The query string with other values for some names, with its question mark; None: without the name."""
        kept = [(key, value) for key, value in self.pairs if key not in values]
        pairs = [*kept, *((key, value) for key, value in values.items() if value is not None)]
        return f"?{urlencode(pairs, quote_via=quote)}" if pairs else "?"


class Form(Fields):
    """The fields of a form, without those of the frame (token, idempotency key)."""


def parse_query(raw: bytes) -> Query:
    """The pairs of a query string. Raises ``InvalidField`` for text that is not UTF-8."""
    return Query(_parse(raw))


def parse_form(raw: bytes) -> Form:
    """The pairs of an encoded form. Raises ``InvalidField`` for text that is not UTF-8."""
    return Form(_parse(raw))


MAX_FIELDS: Final = 1000


def _parse(raw: bytes) -> Pairs:
    try:
        pairs = parse_qsl(
            raw.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=MAX_FIELDS, separator="&"
        )
    except ValueError as malformed:
        raise InvalidField("form", "is not readable as fields") from malformed
    return tuple(pairs)


class ConsoleRequest(Struct, frozen=True, kw_only=True):
    """A request of somebody who is known. ``params`` are the decoded parameters of the path."""

    method: str
    path: str
    """Undecoded, as it stands in the address bar."""
    params: Mapping[str, str]
    query: Query
    session: Session
    viewer: Viewer
    client: ApiClient
    counts: KeptCounts
    page_paths: frozenset[str]
    """Of the pages that there are, as in the table of routes: links lead to no other ones."""
    now: int
    """Microseconds since 1970."""

    async def call(self, *calls: ApiCall) -> tuple[Reply, ...]:
        """The replies to calls of the API, made at the same time. A call that fails has a reply, too."""
        return await self.client.call_all(calls)

    async def call_one(self, call: ApiCall) -> Reply:
        """The reply to one call."""
        return await self.client.call(call)


ReadBody = Callable[[int], Awaitable[bytes]]
"""Reads a body of at most so many bytes. Raises ``BodyTooLong``."""
