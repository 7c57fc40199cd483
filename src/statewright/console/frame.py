"""The frame around pages: navigation, banner, calls that were made, and problems in place of a page.

Templates to HTML. Everything is escaped; there is no way around it in a template (tests/unit/console).

The links at the side: those of the pages that exist and that the viewer's service has.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from html import escape
from secrets import token_hex
from typing import Final, Protocol

from jinja2 import Environment, PackageLoader, StrictUndefined
from msgspec import Struct

from statewright.console.calls import ApiCall
from statewright.console.request import Action, ConsoleRequest, Group, Page
from statewright.console.response import ConsoleResponse, get_static_path
from statewright.console.session import Viewer, build_form_token
from statewright.console.views import page as text
from statewright.console.views.page import FrameView, MadeCall, NavigationEntry, NavigationGroup, Problem, View

GROUPS: Final[tuple[Group, ...]] = ("Data", "Processes", "Work", "System")

ORDER: Final[tuple[str, ...]] = (
    *("home", "models", "entities", "messages"),
    *("definitions", "instances", "flows", "playbooks", "schedules"),
    *("tasks", "incidents", "workers", "bulk", "searches"),
    *("events", "audit", "admin", "help"),
)
"""Names of pages from top to bottom; others come behind."""


def build_navigation(pages: Iterable[Page], viewer: Viewer, current: str) -> tuple[NavigationGroup, ...]:
    """The groups that have entries. ``current`` is the path that is shown."""
    entries: dict[Group, list[NavigationEntry]] = {group: [] for group in GROUPS}
    for page in sorted(pages, key=_rank):
        wanted = page.navigation
        if wanted is None or not is_offered(page, viewer) or not viewer.has(wanted.role):
            continue
        inside = current == page.path or (page.path != "/console/" and current.startswith(f"{page.path}/"))
        entries[wanted.group].append(
            NavigationEntry(wanted.label, page.path, is_current=inside, key=wanted.key, badge=wanted.badge)
        )
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


class Browser(Protocol):
    """What the frame needs of a request."""

    @property
    def origin(self) -> str: ...
    @property
    def cookies(self) -> dict[str, str]: ...


class PageFrame:
    """Renders whole pages and parts."""

    def __init__(
        self, config: FrameConfig, pages: Sequence[Page], actions: Mapping[str, Action], read_clock: Callable[[], int]
    ) -> None:
        self._config = config
        self._pages = [page for page in pages if not page.is_part]
        self._actions = actions
        self._renderer = Renderer(read_clock)

    def show(self, request: ConsoleRequest, page: Page, view: View, browser: Browser) -> ConsoleResponse:
        """A page with its frame, or a part without."""
        template = view.template or page.template
        frame = self.build(request, view, browser.origin, browser.cookies)  # of a part: what its forms need
        return self._render(template, view.status, frame=frame, view=view.data, viewer=request.viewer)

    def show_problem(
        self, request: ConsoleRequest, problem: Problem, origin: str, page: Page | None = None
    ) -> ConsoleResponse:
        """What is shown in place of a page or part that could not be made."""
        if page is not None and page.is_part:
            return self._render("parts/problem.html", problem.status, problem=problem, viewer=request.viewer)
        frame = self.build(request, View(title=problem.title), origin, {})
        return self._render("pages/problem.html", problem.status, frame=frame, problem=problem, viewer=request.viewer)

    def refuse(self, status: int, text: str) -> ConsoleResponse:
        """A short page without a frame, for those of whom nothing is known."""
        body = f'<!doctype html><html lang="en"><title>{status}</title><p>{escape(text)}.</p></html>\n'
        return ConsoleResponse(body.encode(), status)

    def render_page(
        self, request: ConsoleRequest, template: str, view: View, origin: str, **values: object
    ) -> ConsoleResponse:
        """A page that no row of the table has, such as a confirmation."""
        frame = self.build(request, view, origin, {})
        return self._render(template, view.status, frame=frame, view=view.data, viewer=request.viewer, **values)

    def format_curl(self, call: ApiCall, origin: str) -> str:
        """A call as a command line."""
        return call.format_curl(origin, self._config.context_path)

    def build(self, request: ConsoleRequest, view: View, origin: str, cookies: Mapping[str, str]) -> FrameView:
        """All that is around the content."""
        viewer, config = request.viewer, self._config
        theme = cookies.get(THEME_COOKIE, "system")
        done = self._actions.get(request.query.get(DONE))
        return FrameView(
            title=view.title,
            crumbs=view.crumbs,
            navigation=build_navigation(self._pages, viewer, request.path),
            tenant=viewer.tenant,
            principal=viewer.id,
            roles=tuple(sorted(viewer.roles)),
            is_mock=config.is_mock,
            has_login=not config.is_mock and not request.session.is_login,
            may_log_out=request.session.is_login,
            is_read_only=viewer.is_read_only,
            address=config.address,
            theme=theme if theme in THEMES else "system",
            form_token=build_form_token(request.session),
            calls=tuple(
                MadeCall(self.format_curl(reply.call, origin), reply.status, f"{reply.seconds * 1000:.1f}")
                for reply in request.client.made
            ),
            done=None if done is None else done.label,
            live=view.live,
            at=view.at,
            path=request.path,
            version=config.version,
            curl=lambda call: self.format_curl(call, origin),
            find_text=request.query.get("q") if request.path == "/console/find" else "",
        )

    def _render(self, template: str, status: int, **values: object) -> ConsoleResponse:
        return ConsoleResponse(self._renderer.render(template, **values).encode("utf-8", "replace"), status)
