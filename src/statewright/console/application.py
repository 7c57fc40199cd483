"""One request of a browser: guards, session, page or action, template (docs/console.md)."""

import asyncio
import gzip
from collections.abc import Awaitable, Callable
from time import perf_counter, thread_time, time_ns
from typing import Final
from urllib.parse import urlsplit

from msgspec.structs import replace

from statewright.console import routes
from statewright.console.acts import ActionForms, ActStep
from statewright.console.calls import CallFailed, Reply
from statewright.console.client import Api, ApiClient
from statewright.console.frame import FrameConfig, PageFrame, is_offered
from statewright.console.live import MAX_TOPICS, KeptCounts, LiveHints, parse_topics
from statewright.console.login import HOME, LOGIN, Login, LoginStep, LoginView
from statewright.console.request import (
    Action,
    Browser,
    Fields,
    Form,
    InvalidField,
    Page,
    PageContext,
    Query,
    build_problem,
    parse_form,
    parse_query,
)
from statewright.console.response import (
    HTML,
    NO_STORE,
    SECURITY_HEADERS,
    STREAM_HEADERS,
    TEXT,
    ConsoleResponse,
    add_timing,
    build_download,
    build_redirect,
    is_foreign_form,
)
from statewright.console.session import Session, Sessions, SessionsUnavailable, Viewer, Viewers, check_form_token
from statewright.console.views.page import Problem, View
from statewright.telemetry import logs

MAX_RENDERED: Final = 8
"""Pages that are made at the same time in a process; others wait."""
MAX_ACTING: Final = 64
"""Actions that are carried out at the same time: most of it is waiting for the API, which may take a minute."""
QUEUE_TIMEOUT_S: Final = 2.0
MIN_COMPRESSED_BYTES: Final = 1_000
MAX_FORM_BYTES: Final = 24 * 1024 * 1024
"""Of an encoded form: 10 MiB of JSON take up to twice as much."""
MAX_INLINE_FORM_BYTES: Final = 64 * 1024
Respond = Callable[[PageContext], Awaitable[ConsoleResponse]]

_FOREIGN: Final = "This form was not sent by a page of this console"
_OLD: Final = "This form is too old: open its page again, and send it from there"

log = logs.logger(__name__)


Observe = Callable[[str, int, float], None]
"""Is told the name of the route, the status and the seconds of every page, part and action."""


class BodyTooLong(Exception):
    """A form has more bytes than are read."""


class Console:
    """All pages, parts and actions of a process."""

    def __init__(
        self,
        api: Api,
        sessions: Sessions,
        config: FrameConfig,
        *,
        observe: Observe = lambda _route, _status, _seconds: None,
        login: Login | None = None,
        read_clock: Callable[[], int] = lambda: time_ns() // 1000,
    ) -> None:
        self._api = api
        self._login = login
        self._sessions = sessions
        self._read_clock = read_clock
        self._viewers = Viewers()
        self._counts = KeptCounts()
        self.live = LiveHints(sessions.find_ended)
        self._rendering = asyncio.Semaphore(MAX_RENDERED)
        self._acting = asyncio.Semaphore(MAX_ACTING)
        pages = [route for route in routes.ROUTES if isinstance(route, Page)]
        self._page_paths = frozenset(page.path for page in pages if not page.is_part)
        self._actions = {route.name: route for route in routes.ROUTES if isinstance(route, Action)}
        self._frame = PageFrame(config, pages, self._actions, read_clock)
        self._forms = ActionForms(self._frame)
        self._observe = observe

    async def close(self) -> None:
        """End what pages have begun, and the streams of those that are open."""
        await self.live.close()
        await self._sessions.close()
        await self._counts.close()

    async def show_page(self, page: Page, browser: Browser) -> ConsoleResponse:
        """Answer a GET with a page or a part."""
        return await self._answer(page.name, browser, lambda context: self._show(page, context), page)

    async def show_missing(self, browser: Browser) -> ConsoleResponse:
        """Answer a request for a page that does not exist."""
        offers = (("/console/", "To home"),)
        problem = Problem(status=404, title="There is no such page", subject=browser.path, offers=offers)

        async def show(context: PageContext) -> ConsoleResponse:
            return self._frame.show_problem(context, problem)

        return await self._answer("missing", browser, show)

    async def open_live_stream(self, browser: Browser) -> ConsoleResponse:
        """Answer with hints that something has changed, as long as the page is open."""
        query = parse_query(browser.query_string)
        last_event_id = browser.headers.get(b"last-event-id", b"").decode("latin-1")
        topics = parse_topics(query.get_all("topic"), last_event_id)
        if topics is None:
            return self._frame.refuse(400, f"«topic» is given one to {MAX_TOPICS} times, as entity-ID")
        if self.live.is_full:
            return self._frame.refuse(503, "Too many streams are open")
        session = await self._sessions.find(browser.cookies, is_active=False)
        if session is None:
            return self._ask_for_login(browser)
        client = ApiClient(self._api, session.token)
        viewer = await self._viewers.find(session, client)

        login = session.id if session.is_login else ""
        stream = await self.live.open(client, viewer.tenant, topics, login=login)
        if isinstance(stream, Reply):
            return self._frame.refuse(stream.status, "This may not be listened to")
        return ConsoleResponse(stream, 200, "text/event-stream", STREAM_HEADERS)

    async def log_in(self, step: LoginStep, browser: Browser) -> ConsoleResponse:
        """Show the page of the login, check what was typed there, or send the browser to a provider and back."""
        if self._login is None:
            return build_redirect(HOME)
        begun = perf_counter()
        response = await self._refuse_failed(
            self._log_in(self._login, step, browser), "console_login_broken", "The login", step=step
        )
        self._observe(f"login_{step}", response.status, perf_counter() - begun)
        return response

    async def log_out(self, browser: Browser) -> ConsoleResponse:
        """End the login of the browser, on all nodes."""
        if self._login is None:
            return build_redirect(HOME)
        if is_foreign_form(browser.headers):
            return self._frame.refuse(403, _FOREIGN)
        session = await self._sessions.find(browser.cookies)
        if session is not None:
            form = await _read_form(browser)
            if not check_form_token(session, form.get("form_token")):
                return self._frame.refuse(403, _OLD)
            self._viewers.forget(session)
        return await self._login.leave(browser)

    async def _log_in(self, login: Login, step: LoginStep, browser: Browser) -> ConsoleResponse:
        if step == "check":
            fields: Fields = parse_form(await browser.body(MAX_INLINE_FORM_BYTES, excess=BodyTooLong))
        else:
            fields = parse_query(browser.query_string)
        return await login.answer(step, browser, fields, self._render_login)

    def _render_login(self, browser: Browser, session: Session, view: LoginView, status: int) -> ConsoleResponse:
        context = PageContext(
            browser=browser,
            query=Query(()),
            session=session,
            viewer=Viewer(),
            client=ApiClient(self._api, None),
            counts=self._counts,
            now=self._read_clock(),
        )
        return self._frame.render_page(context, "pages/login.html", View(title="Log in", data=view, status=status))

    async def act(self, step: ActStep, browser: Browser) -> ConsoleResponse:
        """Ask before an action; show the call that its form would make, which may hold what was typed; or carry it out
        and send the browser on. But for the question, nothing happens unless the form is of our own page.
        """
        action = self._actions.get(browser.path.rpartition("/")[2])
        if action is None:
            return self._frame.refuse(404, "There is no such action")
        if step != "confirm" and is_foreign_form(browser.headers):
            return self._frame.refuse(403, _FOREIGN)

        async def respond(context: PageContext) -> ConsoleResponse:
            if step == "confirm":
                return await self._forms.answer(step, action, context, Form(context.query.pairs))
            form = await _read_form(browser)
            if not check_form_token(context.session, form.get("form_token")):
                return self._frame.refuse(403, _OLD)
            return await self._forms.answer(step, action, context, form)

        return await self._answer(f"{step}_{action.name}", browser, respond, is_act=step == "do")

    async def _answer(
        self, name: str, browser: Browser, respond: Respond, page: Page | None = None, *, is_act: bool = False
    ) -> ConsoleResponse:
        begun = perf_counter()
        slots = self._acting if is_act else self._rendering
        response = await self._answer_in_turn(browser, respond, page, slots)
        self._observe(name, response.status, perf_counter() - begun)
        return response if is_act else self._compress(browser, response)

    async def _answer_in_turn(
        self, browser: Browser, respond: Respond, page: Page | None, slots: asyncio.Semaphore
    ) -> ConsoleResponse:
        try:
            async with asyncio.timeout(QUEUE_TIMEOUT_S):
                await slots.acquire()
        except TimeoutError:
            return self._frame.refuse(503, "Too many pages are being made at this moment; try again")
        try:
            answer = self._respond(browser, respond, page)
            return await self._refuse_failed(answer, "console_page_failed", "This page", path=browser.path)
        finally:
            slots.release()

    async def _refuse_failed(
        self, answer: Awaitable[ConsoleResponse], event: str, what: str, **facts: str
    ) -> ConsoleResponse:
        """The answer, or a refusal of a line in place of one that cannot be made."""
        try:
            return await answer
        except BodyTooLong:
            return self._frame.refuse(413, "This form is too long")
        except InvalidField as invalid:
            return self._frame.refuse(400, f"«{invalid.field}» {invalid.reason}")
        except SessionsUnavailable:
            return self._frame.refuse(503, "Logins cannot be looked up at this moment; try again")
        except Exception:
            log.exception(event, **facts)
            return self._frame.refuse(500, f"{what} could not be made; the log of the service says why")

    async def _respond(self, browser: Browser, respond: Respond, page: Page | None) -> ConsoleResponse:
        session = await self._sessions.find(browser.cookies, is_active=_is_active(browser))
        is_public = page is not None and page.is_public
        if session is None and not is_public:
            return self._ask_for_login(browser)
        client = ApiClient(self._api, None if session is None else session.token, _read_trace(browser))
        session = session or Session(id="")
        viewer = await self._viewers.find(session, client)
        if not viewer.is_known and not is_public:
            return self._ask_for_login(browser)
        client.made.clear()  # the foot of a page lists what this page asked for
        context = PageContext(
            browser=browser,
            query=parse_query(browser.query_string),
            session=session,
            viewer=viewer,
            client=client,
            counts=self._counts,
            page_paths=self._page_paths,
            now=self._read_clock(),
        )
        response = await respond(context)
        if response.status == 403:
            self._viewers.forget(session)
        if session.set_cookie is not None:
            cookie = (b"set-cookie", session.set_cookie.encode())
            response = replace(response, headers=(*response.headers, cookie))
        return response

    async def _show(self, page: Page, context: PageContext) -> ConsoleResponse:
        if not is_offered(page, context.viewer):
            problem = Problem(status=404, title="This service does not have this", detail=f"It lacks «{page.feature}».")
            return self._frame.show_problem(context, problem, page)
        begun, browser = perf_counter(), context.browser
        try:
            view = await page.show(context)
        except CallFailed as failed:
            if failed.reply.status == 401:
                return self._ask_for_login(browser)
            problem = build_problem(failed.reply, retry=browser.path + context.query.change())
            return self._frame.show_problem(context, problem, page)
        except InvalidField as invalid:
            offers = ((browser.path, "Open the page without it"),) if browser.method == "GET" else ()
            title, detail = f"«{invalid.field}» cannot be used", invalid.reason
            problem = Problem(status=400, title=title, detail=detail[:1].upper() + detail[1:], offers=offers)
            return self._frame.show_problem(context, problem, page)
        if view.redirect is not None:
            return build_redirect(view.redirect)
        if view.download is not None:
            return build_download(view.download)
        shown, began_rendering = perf_counter(), thread_time()
        response = self._frame.show(context, page, view)
        took = {"calls_s": shown - begun, "template_s": thread_time() - began_rendering}
        return add_timing(response, calls=len(context.client.made), **took)

    def _ask_for_login(self, browser: Browser) -> ConsoleResponse:
        target = _build_login_target(browser)
        if b"hx-request" in browser.headers:
            headers = (*SECURITY_HEADERS, NO_STORE, (b"hx-redirect", target.encode()))
            return ConsoleResponse(b"Your login has ended.", 401, TEXT, headers)
        return build_redirect(target)

    def _compress(self, browser: Browser, response: ConsoleResponse) -> ConsoleResponse:
        takes = b"gzip" in browser.headers.get(b"accept-encoding", b"") and response.media_type == HTML
        if not takes or not isinstance(response.body, bytes) or len(response.body) < MIN_COMPRESSED_BYTES:
            return response
        body = gzip.compress(response.body, 1, mtime=0)
        return replace(response, body=body, headers=(*response.headers, (b"content-encoding", b"gzip")))


def _is_active(browser: Browser) -> bool:
    """Whether somebody did something, as against a part that asks for itself again."""
    return not browser.path.startswith(("/console/part/", "/console/live"))


def _build_login_target(browser: Browser) -> str:
    shown = browser.path + (f"?{browser.query_string.decode('latin-1')}" if browser.query_string else "")
    if browser.method != "GET":
        return LOGIN + Query(()).change(ended="form")
    return LOGIN + Query(()).change(next=shown if _is_active(browser) else _find_page(browser))


def _find_page(browser: Browser) -> str:
    """The page that a part belongs to: its address comes with what the script asks for."""
    shown = urlsplit(browser.headers.get(b"hx-current-url", b"").decode("latin-1"))
    return f"{shown.path}?{shown.query}" if shown.query else shown.path or HOME


def _read_trace(browser: Browser) -> str | None:
    value = browser.headers.get(b"traceparent")
    return None if value is None else value.decode("latin-1")


async def _read_form(browser: Browser) -> Form:
    body = await browser.body(MAX_FORM_BYTES, excess=BodyTooLong)
    return parse_form(body) if len(body) <= MAX_INLINE_FORM_BYTES else await asyncio.to_thread(parse_form, body)
