"""What a page is made from: the request of a browser, who looks, and the API as he sees it.

Failed calls as pages and parts show them.

What a row of the table of routes says (docs/console.md#how-to-add-a-page).
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from http import HTTPStatus
from typing import Final, Literal, Protocol, TypeAlias
from urllib.parse import parse_qsl, quote, urlencode

from msgspec import Struct

from statewright.console.calls import ApiCall, Reply
from statewright.console.client import ApiClient
from statewright.console.live import KeptCounts
from statewright.console.session import Session, Viewer
from statewright.console.views.page import Confirmation, Problem, View
from statewright.operations.records import Record

SIZES: Final = (20, 50, 200)
DEFAULT_SIZE: Final = 50

MAX_NUMBER: Final = 999_999_999
MAX_PAGE: Final = 999_999
MAX_VERSION: Final = 2**31 - 1
"""Of a model."""

Pairs = tuple[tuple[str, str], ...]


class InvalidField(ValueError):
    """A field of a form, or a parameter of a page, has no valid value."""

    def __init__(self, field: str, reason: str) -> None:
        super().__init__(f"{field}: {reason}")
        self.field = field
        self.reason = reason


def parse_number(name: str, text: str, most: int = MAX_NUMBER) -> int:
    """The whole number that a field has. Raises ``InvalidField``."""
    if not (text.isascii() and text.isdigit() and len(text) <= len(str(most))) or int(text) > most:
        raise InvalidField(name, f"is a whole number from 0 to {most}")
    return int(text)


def parse_version(text: str) -> int:
    """The version of a model. Raises ``InvalidField``."""
    return parse_number("version", text, MAX_VERSION)


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

    def get_number(self, name: str, default: int = 0, *, most: int = MAX_NUMBER) -> int:
        """A whole number from 0 to ``most``. Raises ``InvalidField``."""
        return parse_number(name, self.get(name, str(default)), most)


class Query(Fields):
    """The query string of a page."""

    def page(self) -> int:
        """Which page of a list of ``/v1``; those have no cursors. Raises ``InvalidField``."""
        return self.get_number("page", most=MAX_PAGE)

    def size(self) -> int:
        """Rows of a page. Raises ``InvalidField``."""
        return int(self.get_choice("size", (str(DEFAULT_SIZE), *(str(size) for size in SIZES))))

    def read_page(self, cursor: str = "after") -> dict[str, int | str | None]:
        """Size and place of the page of a list, as the API takes them. ``cursor`` is the parameter of the place."""
        return {"limit": self.size(), "cursor": self.get(cursor) or None}

    def change(self, **values: str | None) -> str:
        """The query string with other values for some names, with its question mark; None: without the name."""
        kept = [(key, value) for key, value in self.pairs if key not in values]
        pairs = [*kept, *((key, value) for key, value in values.items() if value is not None)]
        return f"?{urlencode(pairs, quote_via=quote)}" if pairs else "?"


NOTHING_ASKED: Final = Query(())


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


class Browser(Protocol):
    """What the console needs of a request, which comes matched to its route: ``path_params`` are decoded."""

    @property
    def method(self) -> str: ...
    @property
    def path(self) -> str:
        """Undecoded, as it stands in the address bar."""
        ...

    @property
    def path_params(self) -> Mapping[str, str]: ...
    @property
    def query_string(self) -> bytes: ...
    @property
    def headers(self) -> Mapping[bytes, bytes]: ...
    @property
    def origin(self) -> str: ...
    @property
    def address(self) -> str: ...
    @property
    def cookies(self) -> dict[str, str]: ...
    async def body(self, limit: int, *, excess: Callable[[str], Exception]) -> bytes: ...


class PageContext(Struct, frozen=True, kw_only=True):
    """What a page is made from."""

    browser: Browser
    query: Query
    session: Session
    viewer: Viewer
    client: ApiClient
    counts: KeptCounts
    page_paths: frozenset[str] = frozenset()
    """Of the pages that there are, as in the table of routes: links lead to no other ones."""
    now: int
    """Microseconds since 1970."""

    @property
    def path(self) -> str:
        """Undecoded, as it stands in the address bar."""
        return self.browser.path

    @property
    def params(self) -> Mapping[str, str]:
        """The decoded parameters of the path."""
        return self.browser.path_params

    async def call(self, *calls: ApiCall) -> tuple[Reply, ...]:
        """The replies to calls of the API, made at the same time. A call that fails has a reply, too."""
        return await self.client.call_all(calls)

    async def call_one(self, call: ApiCall) -> Reply:
        """The reply to one call."""
        return await self.client.call(call)


TOO_EXPENSIVE: Final = frozenset({"SCAN_BUDGET_EXHAUSTED", "SEARCH_SHARD_TIMEOUT", "SEARCH_RESULT_LIMIT"})
"""Codes by which a search gives up."""

_TITLES: Final = {
    401: "Your login has ended",
    403: "Your roles do not allow this",
    404: "There is no such thing here",
    409: "This cannot be done now",
    410: "It is not kept any more",
    412: "It has changed since you looked",
    429: "Too many requests",
    503: "The service is not available",
    504: "No answer in time",
}
_RETRYABLE: Final = frozenset({429, 500, 502, 503, 504})


class _Code(Record, frozen=True):
    """What a problem document says for programs."""

    error_code: str = ""


class _Refusal(Record, frozen=True, kw_only=True):
    """What the API says of a failure, in the words of one dialect or another."""

    detail: str = ""
    reason: str = ""
    error: str = ""
    ticket: str = ""
    properties: _Code = _Code()


def build_problem(reply: Reply, *, retry: str | None = None) -> Problem:
    """The problem document of a reply in words. ``retry`` is the address of what could not be shown."""
    told = reply.pick(_Refusal)
    code = told.properties.error_code or told.error
    return Problem(
        status=reply.status,
        title=get_title(reply.status),
        detail=_read_detail(told, code),
        code=code,
        ticket=told.ticket,
        retry=retry if reply.status in _RETRYABLE else None,
        offers=_list_offers(reply.status, code),
    )


def _read_detail(told: _Refusal, code: str) -> str:
    """What the API says without the code before it, which stands beside it; nothing where it is no more than that."""
    detail = (told.detail or told.reason).removeprefix(f"{code}: ")
    return "" if detail.casefold() == code.casefold() else detail[:1].upper() + detail[1:]


def get_title(status: int) -> str:
    """What went wrong, in a few words."""
    known = _TITLES.get(status)
    if known is not None:
        return known
    return "Something failed here" if status >= HTTPStatus.INTERNAL_SERVER_ERROR else "This was refused"


def _list_offers(status: int, code: str) -> tuple[tuple[str, str], ...]:
    if code in TOO_EXPENSIVE:
        return ()
    return (("/console/find", "Find it by its id"),) if status == HTTPStatus.NOT_FOUND else ()


Group = Literal["Data", "Processes", "Work", "System"]

OPERATOR: Final = "ROLE_OPERATOR"
ADMIN: Final = "ROLE_ADMIN"

Show: TypeAlias = Callable[[PageContext], Awaitable[View]]


class Navigation(Struct, frozen=True):
    """An entry of the navigation. ``key`` is pressed after ``g``; ``badge`` is the path of the part with its number;
    ``role`` is the one that the page is of use to, None: everybody.
    """

    group: Group
    label: str
    key: str | None = None
    badge: str | None = None
    role: str | None = None


class Page(Struct, frozen=True, kw_only=True):
    """A page, or with ``is_part`` a piece of one, at a path of its own below ``/console/part/``.

    Its template is ``pages/<name>.html``, that of a part ``parts/<name>.html``. ``show`` loads and makes the view; it
    raises ``CallFailed`` where the page can say nothing else.
    """

    name: str
    path: str
    show: Show
    navigation: Navigation | None = None
    feature: str | None = None
    """The feature of the operations API that it needs: without it there is no such page."""
    is_part: bool = False
    is_file: bool = False
    """Whether it gives a file in place of a page; then it has no template."""
    is_public: bool = False
    """Whether it is shown without a login."""

    @property
    def template(self) -> str:
        """Where its template is, below ``templates``."""
        return f"{'parts' if self.is_part else 'pages'}/{self.name}.html"


def build_part(name: str, path: str, show: Show, *, feature: str | None = None) -> Page:
    """The row of a part; ``path`` is that below ``/console/part``."""
    return Page(name=name, path=f"/console/part{path}", show=show, feature=feature, is_part=True)


class Action(Struct, frozen=True):
    """What a form does: one call of the API.

    ``build`` makes the call from the fields, and raises ``InvalidField``. ``follow`` says where the browser goes
    then. ``confirm`` loads what is asked before; without it, the form acts at once.
    """

    name: str
    label: str
    build: Callable[[Form], ApiCall]
    follow: Callable[[Form, Reply], str]
    confirm: Callable[[PageContext, Form], Awaitable[Confirmation]] | None = None
    show: Callable[[PageContext, Form, Reply], Awaitable[View | None]] | None = None
    """Makes a page of the reply in place of following it, whether the call succeeded or not: a check, a secret that is
    shown once. Its template is ``pages/<name>.html``; None: as without.
    """
    show_invalid: Callable[[PageContext, Form, InvalidField], Awaitable[View]] | None = None
    """Makes the page of the form again, with the message at the field that cannot be used; ``template`` is needed."""
    role: str | None = None
    """Who may: one role of the API, or None for whoever may read."""
    is_dangerous: bool = False

    @property
    def path(self) -> str:
        """Where its form is sent."""
        return f"/console/do/{self.name}"


Routes: TypeAlias = "tuple[Page | Action, ...]"
