"""Logging in and out: by a provider, as a client, or with a token that one has (docs/console.md#login).

How often logins may fail (docs/console.md#login).
"""

import re
from base64 import b64encode, urlsafe_b64decode, urlsafe_b64encode
from collections import deque
from collections.abc import Callable
from time import monotonic
from typing import Final, Literal
from urllib.parse import quote_plus, urlencode

from msgspec import Struct
from msgspec.structs import replace

from statewright.console.calls import ApiCall, Reply, build_entity_call, pick_members
from statewright.console.client import Api, ApiClient
from statewright.console.login_store import FLOW_COOKIE, VISITOR_COOKIE, Grant, SealTokens, StoredLogins
from statewright.console.oidc import (
    FLOW_S,
    LoginFlow,
    LoginProviders,
    Offer,
    begin_flow,
    build_authorization_url,
    build_code_form,
    build_logout_url,
    decode_flow,
    find_id_token_fault,
    read_claims,
    read_expiry,
)
from statewright.console.request import Browser, Fields
from statewright.console.response import ConsoleResponse, build_redirect, is_foreign_form
from statewright.console.session import ID_BYTES, Session, check_form_token, make_session_id
from statewright.loop.lru import LruCache
from statewright.network.sockets import name_address
from statewright.operations.records import Record
from statewright.telemetry import logs

MAX_FAILURES: Final = 10
"""Of one account from one address."""
MAX_FAILURES_OF_ADDRESS: Final = 100
"""Of whatever accounts: an address may be that of a proxy, and of many people."""
WITHIN_S: Final = 60.0
MAX_SOURCES: Final = 8192


class LoginAttempts:
    """Failures in this process by account and address, of IPv6 by site. An account is what somebody tries to log in as,
    or the flow at a provider. An attempt counts as a failure until it has succeeded, so that many at the same time are
    no way around.
    """

    def __init__(self, read_clock: Callable[[], float] = monotonic) -> None:
        self._failures: LruCache[tuple[str, str | None], deque[float]] = LruCache(MAX_SOURCES)
        self._read_clock = read_clock

    def begin(self, address: str, account: str) -> bool:
        """Whether another attempt may be made now."""
        site, now = name_address(address), self._read_clock()
        of_account, of_address = self._find((site, account), now), self._find((site, None), now)
        if len(of_account) >= MAX_FAILURES or len(of_address) >= MAX_FAILURES_OF_ADDRESS:
            return False
        of_account.append(now)
        of_address.append(now)
        return True

    def succeed(self, address: str, account: str) -> None:
        """The last attempt was none of guessing."""
        site, now = name_address(address), self._read_clock()
        for source in ((site, account), (site, None)):
            known = self._find(source, now)
            if known:
                known.pop()

    def _find(self, source: tuple[str, str | None], now: float) -> deque[float]:
        known = self._failures.get(source)
        if known is None:
            known = deque[float]()
            self._failures.put(source, known)
        while known and known[0] <= now - WITHIN_S:
            known.popleft()
        return known


LoginStep = Literal["show", "check", "start", "finish"]

LOGIN: Final = "/console/login"
HOME: Final = "/console/"
FORM: Final = "application/x-www-form-urlencoded"
MAX_TOKEN_CHARS: Final = 16_384
MAX_TARGET_CHARS: Final = 8_000
VISIT_S: Final = 3600
FAILED: Final = "The login failed."
BUSY: Final = "Too many of these logins have failed from this address: wait a minute."
UNAVAILABLE: Final = "The service cannot check a login at this moment: try again."
ABOUT_FLOW: Final = b"login flow"

_TARGET: Final = re.compile(r"/console/(?!login|logout|do/|part/|live)[!-\[\]-~]*")
_TOKEN: Final = re.compile(r"[A-Za-z0-9._~+/=-]+")

log = logs.logger(__name__)


class Tokens(Struct, frozen=True, kw_only=True):
    """What a token endpoint gives."""

    access_token: str = ""
    id_token: str = ""
    refresh_token: str = ""


class Tenant(Record, frozen=True):
    """Whom a principal belongs to."""

    id: str = ""


class AccountInfo(Record, frozen=True, kw_only=True):
    """Who somebody is."""

    user_id: str = ""
    legal_entity: Tenant = Tenant()


class Account(Record, frozen=True, kw_only=True):
    """Whose token it is."""

    user_account_info: AccountInfo = AccountInfo()


class LoginView(Struct, frozen=True, kw_only=True):
    """What the page of the login shows. ``logout_url`` ends the login at the provider, too."""

    offers: tuple[Offer, ...] = ()
    target: str = HOME
    fault: str = ""
    note: str = ""
    logout_url: str = ""
    client_id: str = ""


class LoginRefused(Exception):
    """Nobody is let in. ``cause`` is for the log, ``text`` for the page; ``status`` that of the answer."""

    def __init__(self, cause: str, text: str = FAILED, status: int = 401) -> None:
        super().__init__(cause)
        self.cause = cause
        self.text = text
        self.status = status


RenderLogin = Callable[[Browser, Session, LoginView, int], ConsoleResponse]


class Login:
    """The ways in and out. ``public_url`` is empty where nothing is set: then no provider can send anybody back."""

    def __init__(
        self,
        api: Api,
        logins: StoredLogins,
        providers: LoginProviders,
        sealer: SealTokens,
        *,
        public_url: str,
        read_clock: Callable[[], int],
    ) -> None:
        self._api = api
        self._logins = logins
        self._providers = providers
        self._sealer = sealer
        self._public_url = public_url
        self._read_clock = read_clock
        self._attempts = LoginAttempts()

    async def answer(self, step: LoginStep, browser: Browser, form: Fields, render: RenderLogin) -> ConsoleResponse:
        """Show the page of the login, check what was typed there, send the browser to a provider, or take what the
        provider has sent it back with. Who is not let in sees the page again, and why.
        """
        flow = self._read_flow(browser.cookies.get(FLOW_COOKIE, "")) if step == "finish" else None
        target = read_target(form.get("next")) if flow is None else flow.target
        try:
            match step:
                case "show":
                    response = self._render(browser, await self._build_view(form, target), 200, render)
                case "check":
                    response = await self._check(browser, form, target)
                case "start":
                    response = await self._start(browser, form, target)
                case "finish":
                    response = await self._finish(browser, flow, form)
        except LoginRefused as refused:
            log.warning("console_login_failed", cause=refused.cause, address=browser.address)
            client_id = form.get("client_id") if step == "check" else ""
            view = LoginView(target=target, fault=refused.text, client_id=client_id)
            response = self._render(browser, view, refused.status, render)
        if step == "finish":
            drop = _set(self._logins.cookies.format_short(FLOW_COOKIE, "", 0))
            response = replace(response, headers=(*response.headers, drop))
        return response

    async def leave(self, browser: Browser) -> ConsoleResponse:
        """Log out, everywhere at once."""
        provider = await self._logins.end(browser.cookies)
        target = f"{LOGIN}?{urlencode({'out': '1', 'provider': provider} if provider else {'out': '1'})}"
        cookie = _set(self._logins.cookies.drop_session())
        return build_redirect(target, cookie, (b"clear-site-data", b'"cache"'))

    async def renew(self, grant: Grant) -> Grant | None:
        """Another token for a login that a provider gave a refresh token for."""
        form = {"grant_type": "refresh_token", "refresh_token": grant.refresh_token or ""}
        answer = await self._providers.request_tokens(grant.provider, form)
        if answer is None:
            return None
        tokens = pick_members(answer, Tokens)
        token = tokens.id_token if grant.is_id_token else tokens.access_token
        claims, before = read_claims(token), read_claims(grant.token)
        if claims is None or before is None or (claims.iss, claims.sub) != (before.iss, before.sub):
            return None
        ends_at = read_expiry(claims)
        if ends_at is None:
            return None
        refresh_token = tokens.refresh_token or grant.refresh_token
        return replace(grant, token=token, token_ends_at=ends_at, refresh_token=refresh_token)

    async def _build_view(self, query: Fields, target: str) -> LoginView:
        note = "Your login had ended, and the form was not sent: log in, then go back in the browser; it has the text."
        if query.get("ended") != "form":
            note = "You are logged out." if query.get("out") else ""
        return LoginView(target=target, note=note, logout_url=await self._find_logout_url(query.get("provider")))

    async def _check(self, browser: Browser, form: Fields, target: str) -> ConsoleResponse:
        """Log in as a client, or with a token."""
        self._require_own_page(browser)
        session = Session(id=browser.cookies.get(VISITOR_COOKIE, ""))
        if is_foreign_form(browser.headers) or not check_form_token(session, form.get("form_token")):
            raise LoginRefused("form", "This form is too old: try again.", 403)
        account = _name_account(form)
        self._begin(browser, account)
        try:
            token = form.get("token").strip() or await self._exchange(form)
            response = await self._let_in(browser, _build_grant(token), target)
        except LoginRefused as refused:
            if refused.status >= 500:  # nobody guessed
                self._attempts.succeed(browser.address, account)
            raise
        self._attempts.succeed(browser.address, account)
        return response

    async def _exchange(self, form: Fields) -> str:
        """The token that a client gets for its secret, which is kept nowhere."""
        client_id, secret = form.get("client_id").strip(), form.get("client_secret")
        if not client_id or not secret:
            raise LoginRefused("nothing given")
        basic = b64encode(f"{quote_plus(client_id)}:{quote_plus(secret)}".encode()).decode()
        reply = await self._call(
            build_entity_call(
                "oauth",
                "token",
                method="POST",
                body=b"grant_type=client_credentials",
                media_type=FORM,
                headers={"Authorization": f"Basic {basic}"},
            )
        )
        return reply.pick(Tokens).access_token

    async def _start(self, browser: Browser, query: Fields, target: str) -> ConsoleResponse:
        """Send the browser to a provider."""
        self._require_own_page(browser)
        provider = await self._providers.discover(query.get("provider")) if self._public_url else None
        if provider is None:
            raise LoginRefused("provider", "This provider cannot be reached, or offers no login here.", 503)
        flow = begin_flow(provider.id, target, self._read_clock())
        sealed = urlsafe_b64encode(self._sealer.seal(flow.encode(), ABOUT_FLOW)).decode()
        cookie = self._logins.cookies.format_short(FLOW_COOKIE, sealed, FLOW_S)
        return build_redirect(build_authorization_url(provider, flow, self._public_url), _set(cookie))

    async def _finish(self, browser: Browser, flow: LoginFlow | None, query: Fields) -> ConsoleResponse:
        """The provider has sent the browser back, with a code."""
        self._require_own_page(browser)
        if flow is None:  # a link that anybody may have sent: nobody guesses, and nothing is asked of the provider
            raise LoginRefused("no flow")
        self._begin(browser, flow.state)
        code = query.get("code")
        if query.get("state") != flow.state or not code:
            raise LoginRefused("state" if not query.get("error") else "provider refused")
        provider = await self._providers.discover(flow.provider)
        if provider is None:
            raise LoginRefused("provider")
        answer = await self._providers.request_tokens(provider.id, build_code_form(flow, code, self._public_url))
        if answer is None:
            raise LoginRefused("code refused")
        tokens = pick_members(answer, Tokens)
        fault = find_id_token_fault(read_claims(tokens.id_token), provider, flow.nonce, self._read_clock())
        if fault is not None:
            raise LoginRefused(f"ID token: {fault}")
        for token in (tokens.access_token, tokens.id_token):
            ends_at = read_expiry(read_claims(token))
            if ends_at is None:
                continue
            grant = Grant(
                token=token,
                token_ends_at=ends_at,
                refresh_token=tokens.refresh_token or None,
                provider=provider.id,
                is_id_token=token is tokens.id_token,
            )
            try:
                response = await self._let_in(browser, grant, flow.target, tenant=provider.tenant)
            except LoginRefused as refused:
                if refused.status != 401:
                    raise
            else:
                self._attempts.succeed(browser.address, flow.state)
                return response
        raise LoginRefused("no token of the provider is accepted")

    def _begin(self, browser: Browser, account: str) -> None:
        if not self._attempts.begin(browser.address, account):
            raise LoginRefused("too many", BUSY, 429)

    async def _let_in(self, browser: Browser, grant: Grant, target: str, *, tenant: str = "") -> ConsoleResponse:
        """Keep the login if the API takes its token; with ``tenant`` only for that one."""
        if len(grant.token) > MAX_TOKEN_CHARS or _TOKEN.fullmatch(grant.token) is None:
            raise LoginRefused("malformed token")
        reply = await self._call(build_entity_call("account"), grant.token)
        account = reply.pick(Account).user_account_info
        found, principal = account.legal_entity.id, account.user_id
        if not found or (tenant and found != tenant):
            raise LoginRefused("another tenant")
        await self._logins.end(browser.cookies)  # the id changes, and the one before is worth nothing
        session = await self._logins.begin(grant, tenant=found, principal=principal)
        log.info("console_login", tenant=found, principal=principal, provider=grant.provider, address=browser.address)
        return build_redirect(target, _set(session.set_cookie or ""))

    async def _call(self, call: ApiCall, token: str | None = None) -> Reply:
        reply = await ApiClient(self._api, token).call(call)
        if reply.status == 429:
            raise LoginRefused("too many", BUSY, 429)
        if reply.status >= 500:
            raise LoginRefused("service unavailable", UNAVAILABLE, 503)
        if not reply.is_ok:
            raise LoginRefused("credentials")
        return reply

    async def _find_logout_url(self, provider_id: str) -> str:
        if not provider_id or not self._public_url:
            return ""
        provider = await self._providers.discover(provider_id)
        return "" if provider is None else build_logout_url(provider, self._public_url)

    def _read_flow(self, cookie: str) -> LoginFlow | None:
        try:
            sealed = urlsafe_b64decode(cookie.encode("ascii"))
        except ValueError:
            return None
        plain = self._sealer.open(sealed, ABOUT_FLOW)
        return None if plain is None else decode_flow(plain, self._read_clock())

    def _require_own_page(self, browser: Browser) -> None:
        fault = self._logins.cookies.find_fault(browser.origin)
        if fault is not None:
            raise LoginRefused("address", f"{fault}.", 403)

    def _render(self, browser: Browser, view: LoginView, status: int, render: RenderLogin) -> ConsoleResponse:
        fault = self._logins.cookies.find_fault(browser.origin)
        if fault is not None:
            view, status = LoginView(target=view.target, fault=f"{fault}."), 403
        offers = tuple(self._providers.list_offers()) if self._public_url else ()
        known = browser.cookies.get(VISITOR_COOKIE, "")
        session = Session(id=known if len(known) >= ID_BYTES else make_session_id())
        response = render(browser, session, replace(view, offers=offers), status)
        cookie = self._logins.cookies.format_short(VISITOR_COOKIE, session.id, VISIT_S)
        return replace(response, headers=(*response.headers, _set(cookie)))


def read_target(text: str) -> str:
    """A page of the console to go to, home in place of anything else."""
    return text if len(text) <= MAX_TARGET_CHARS and _TARGET.fullmatch(text) else HOME


def _build_grant(token: str) -> Grant:
    ends_at = read_expiry(read_claims(token))
    if ends_at is None:
        raise LoginRefused("no token")
    return Grant(token=token, token_ends_at=ends_at)


def _name_account(form: Fields) -> str:
    """What somebody tries to log in as: the client, or nothing for a token, which says so itself."""
    return "" if form.get("token").strip() else form.get("client_id").strip()


def _set(cookie: str) -> tuple[bytes, bytes]:
    return b"set-cookie", cookie.encode()
