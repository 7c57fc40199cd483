"""What a page function gives, and what the frame around it shows."""

from collections.abc import Callable

from msgspec import Struct

from statewright.console.calls import ApiCall


class Crumb(Struct, frozen=True):
    """A step of the way from home to a page."""

    label: str
    href: str


class View(Struct, frozen=True, kw_only=True):
    """A page or part before it is rendered. ``data`` is a frozen struct: all that the template sees as ``view``."""

    title: str = ""
    data: Struct | None = None
    status: int = 200
    crumbs: tuple[Crumb, ...] = ()
    redirect: str | None = None
    """Where to go instead of showing anything."""
    template: str | None = None
    """Another template than that of the route."""
    download: "Download | None" = None
    """A file in place of a page."""
    live: tuple[str, ...] = ()
    """Topics of the event stream of the page (``live.py``)."""
    at: str | None = None
    """The instant that the page shows, where it is not now: actions are hidden then."""


class Download(Struct, frozen=True):
    """A file to keep. Its name is made of ids and of what we know, never of texts of users."""

    name: str
    body: bytes
    media_type: str = "application/json"


class Confirmation(Struct, frozen=True, kw_only=True):
    """What is asked before an action: the effect in a sentence, with names and counted numbers."""

    question: str
    details: tuple[str, ...] = ()
    back: str
    """Where *Cancel* leads."""
    needs_reason: bool = False
    """Whether the API asks why; the field ``reason`` is sent then."""
    choices: tuple["Choice", ...] = ()


class Choice(Struct, frozen=True):
    """Options of a confirmation, one of which is sent as the field ``name``; the first is preset."""

    name: str
    legend: str
    options: tuple[tuple[str, str], ...]
    """Values and what they say."""


class Problem(Struct, frozen=True, kw_only=True):
    """A failure as pages and parts show it."""

    status: int
    title: str
    detail: str = ""
    code: str = ""
    ticket: str = ""
    subject: str = ""
    """What it is about, such as the id that was not found."""
    retry: str | None = None
    """The address to try again, where that may help."""
    offers: tuple[tuple[str, str], ...] = ()
    """Links with what they do: the next steps."""


class NavigationEntry(Struct, frozen=True):
    """A link of the navigation."""

    label: str
    href: str
    is_current: bool
    key: str | None
    badge: str | None


class NavigationGroup(Struct, frozen=True):
    """Links under one heading."""

    label: str
    entries: tuple[NavigationEntry, ...]


class MadeCall(Struct, frozen=True):
    """A call that the page was made from."""

    curl: str
    status: int
    milliseconds: str


class FrameView(Struct, frozen=True, kw_only=True):
    """Everything around the content of a page."""

    title: str
    crumbs: tuple[Crumb, ...]
    navigation: tuple[NavigationGroup, ...]
    tenant: str
    principal: str
    roles: tuple[str, ...]
    is_mock: bool
    is_read_only: bool
    has_login: bool
    """Whether this is the page of the login itself: nobody is there yet to navigate for."""
    may_log_out: bool
    address: str
    theme: str
    form_token: str
    calls: tuple[MadeCall, ...]
    done: str | None
    """What has just been done, in a few words."""
    live: tuple[str, ...]
    at: str | None
    path: str
    version: str
    curl: Callable[[ApiCall], str]
    """A call as a command line."""
    find_text: str = ""
