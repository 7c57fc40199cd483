"""The frame around pages: navigation, banner, calls that were made, and problems in place of a page.

Templates to HTML. Everything is escaped; there is no way around it in a template (tests/unit/console).

The links at the side: those of the pages that exist and that the viewer's service has.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from html import escape
from secrets import token_hex
from typing import Final

from jinja2 import Environment, PackageLoader, StrictUndefined
from msgspec import Struct

from statewright.console.calls import ApiCall
from statewright.console.request import Action, Group, Navigation, Page, PageContext
from statewright.console.response import ConsoleResponse, get_static_path
from statewright.console.session import Session, Viewer, build_form_token
from statewright.console.views import page as text
from statewright.console.views.page import Problem, View

GROUPS: Final[tuple[Group, ...]] = ("Data", "Processes", "Work", "System")

ORDER: Final[tuple[str, ...]] = (
    *("home", "models", "entities", "messages"),
    *("definitions", "instances", "flows", "playbooks", "schedules"),
    *("tasks", "incidents", "workers", "bulk", "searches"),
    *("subscriptions", "audit", "admin", "help"),
)
"""Names of pages from top to bottom; others come behind."""


class NavigationEntry(Struct, frozen=True):
    """A link of the navigation."""

    page: Page
    of: Navigation
    is_current: bool


class NavigationGroup(Struct, frozen=True):
    """Links under one heading."""

    label: str
    entries: tuple[NavigationEntry, ...]


def build_navigation(pages: Iterable[Page], viewer: Viewer, current: str) -> tuple[NavigationGroup, ...]:
    """The groups that have entries. ``current`` is the path that is shown."""
    entries: dict[Group, list[NavigationEntry]] = {group: [] for group in GROUPS}
    for page in sorted(pages, key=_rank):
        wanted = page.navigation
        if wanted is None or not is_offered(page, viewer) or not viewer.has(wanted.role):
            continue
        inside = current == page.path or (page.path != "/console/" and current.startswith(f"{page.path}/"))
        entries[wanted.group].append(NavigationEntry(page, wanted, inside))
    return tuple(NavigationGroup(group, tuple(listed)) for group, listed in entries.items() if listed)


def is_offered(page: Page, viewer: Viewer) -> bool:
    """Whether the service has what a page needs."""
    return page.feature is None or page.feature in viewer.features


def _rank(page: Page) -> int:
    return ORDER.index(page.name) if page.name in ORDER else len(ORDER)


class Renderer:
    """Compiled templates. ``read_clock`` gives microseconds since 1970."""

    def __init__(self, read_clock: Callable[[], int]) -> None:
        self._environment = Environment(
            loader=PackageLoader("statewright.console"),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
            auto_reload=False,
        )
        self._environment.globals |= {"static": get_static_path, "idempotency_key": lambda: token_hex(16)}
        self._environment.filters |= _FILTERS | {"moment": lambda value: text.build_moment(value, read_clock())}

    def render(self, template: str, **values: object) -> str:
        """One template with its values."""
        return self._environment.get_template(template).render(values)


_FILTERS: Final = {
    "pieces": text.split_invisible,
    "cut": text.cut_text,
    "short_id": text.shorten_id,
    "count": text.format_count,
    "exact": text.format_exact,
    "size": text.format_bytes,
    "duration": text.format_duration,
    "segment": text.encode_segment,
    "model": text.format_model,
}


THEMES: Final = ("system", "light", "dark")
THEME_COOKIE: Final = "statewright-theme"
DONE: Final = "done"
"""The parameter by which a page is told what has just been done."""


class FrameConfig(Struct, frozen=True, kw_only=True):
    """What pages say about the service."""

    context_path: str
    is_mock: bool
    address: str
    """Where the service listens, as the banner of the mock mode says it."""
    version: str


class MadeCall(Struct, frozen=True):
    """A call that the page was made from."""

    curl: str
    status: int
    milliseconds: str


class FrameView(Struct, frozen=True, kw_only=True):
    """Everything around the content of a page."""

    config: FrameConfig
    page: View
    navigation: tuple[NavigationGroup, ...]
    session: Session
    theme: str
    form_token: str
    calls: tuple[MadeCall, ...]
    done: str | None
    """What has just been done, in a few words."""
    path: str
    curl: Callable[[ApiCall], str]
    """A call as a command line."""
    find_text: str = ""

    @property
    def at(self) -> str | None:
        """The instant that the page shows, where it is not now."""
        return self.page.at

    @property
    def has_login(self) -> bool:
        """Whether this is the page of the login itself: nobody is there yet to navigate for."""
        return not self.config.is_mock and not self.session.is_login


class PageFrame:
    """Renders whole pages and parts."""

    def __init__(
        self, config: FrameConfig, pages: Sequence[Page], actions: Mapping[str, Action], read_clock: Callable[[], int]
    ) -> None:
        self._config = config
        self._pages = [page for page in pages if not page.is_part]
        self._actions = actions
        self._renderer = Renderer(read_clock)

    def show(self, context: PageContext, page: Page, view: View) -> ConsoleResponse:
        """A page with its frame, or a part without, but with what its forms need."""
        return self.render_page(context, view.template or page.template, view)

    def show_problem(self, context: PageContext, problem: Problem, page: Page | None = None) -> ConsoleResponse:
        """What is shown in place of a page or part that could not be made."""
        template = "parts/problem.html" if page is not None and page.is_part else "pages/problem.html"
        return self.render_page(context, template, View(title=problem.title, status=problem.status), problem=problem)

    def refuse(self, status: int, text: str) -> ConsoleResponse:
        """A short page without a frame, for those of whom nothing is known."""
        body = f'<!doctype html><html lang="en"><title>{status}</title><p>{escape(text)}.</p></html>\n'
        return ConsoleResponse(body.encode(), status)

    def render_page(self, context: PageContext, template: str, view: View, **values: object) -> ConsoleResponse:
        """A page, also one that no row of the table has, such as a confirmation."""
        frame = self._build(context, view)
        html = self._renderer.render(template, frame=frame, view=view.data, viewer=context.viewer, **values)
        return ConsoleResponse(html.encode("utf-8", "replace"), view.status)

    def format_curl(self, context: PageContext, call: ApiCall) -> str:
        """A call as a command line."""
        return call.format_curl(context.browser.origin, self._config.context_path)

    def _build(self, context: PageContext, view: View) -> FrameView:
        """All that is around the content."""
        theme = context.browser.cookies.get(THEME_COOKIE, "system")
        done = self._actions.get(context.query.get(DONE))
        return FrameView(
            config=self._config,
            page=view,
            navigation=build_navigation(self._pages, context.viewer, context.path),
            session=context.session,
            theme=theme if theme in THEMES else "system",
            form_token=build_form_token(context.session),
            calls=tuple(
                MadeCall(self.format_curl(context, reply.call), reply.status, f"{reply.seconds * 1000:.1f}")
                for reply in context.client.made
            ),
            done=None if done is None else done.label,
            path=context.path,
            curl=lambda call: self.format_curl(context, call),
            find_text=context.query.get("q") if context.path == "/console/find" else "",
        )
