"""Logins that are kept: their limits, their tokens, and how often one may fail (docs/console.md#login)."""

import asyncio
from collections.abc import Callable, Collection
from typing import Any

import pytest
from msgspec import Struct, convert
from msgspec.structs import replace

from statewright.auth.keys import Sealer
from statewright.console import login_store
from statewright.console.login import LoginAttempts, read_target
from statewright.console.login_store import CookieRules, Grant, SessionLimits, StoredLogins
from statewright.console.oidc import Claims, begin_flow, build_authorization_url, decode_flow, find_id_token_fault
from statewright.console.session import Session
from statewright.jsonval.values import JsonObject

MINUTE = 60 * 1_000_000
NOON = 10_000 * MINUTE


class Row(Struct, frozen=True, kw_only=True):
    tenant: str
    digest: bytes
    principal: str
    sealed: bytes
    token_ends_at: int
    seen_at: int
    ends_at: int


class Rows:
    """Rows in memory."""

    def __init__(self) -> None:
        self.rows: dict[bytes, Row] = {}
        self.claims = 0
        self.swept: list[int] = []

    async def find(self, digest: bytes) -> Row | None:
        return self.rows.get(digest)

    async def find_all(self, digests: Collection[bytes]) -> list[Row]:
        return [row for digest, row in self.rows.items() if digest in digests]

    async def sweep(self, now: int) -> bool:
        self.swept.append(now)
        self.rows = {digest: row for digest, row in self.rows.items() if row.ends_at >= now}
        return bool(self.rows)

    async def add(self, *, now: int, **fields: Any) -> None:
        row = Row(seen_at=now, **fields)
        self.rows[row.digest] = row

    async def touch(self, tenant: str, digest: bytes, now: int) -> None:
        self.rows[digest] = replace(self.rows[digest], seen_at=now)

    async def remove(self, tenant: str, digest: bytes) -> None:
        del self.rows[digest]

    async def claim_renewal(self, tenant: str, digest: bytes, now: int, until: int) -> bool:
        self.claims += 1
        return self.claims == 1

    async def renew(self, tenant: str, digest: bytes, sealed: bytes, token_ends_at: int) -> None:
        self.rows[digest] = replace(self.rows[digest], sealed=sealed, token_ends_at=token_ends_at)


class Desk:
    """Logins of one hour of idleness and eight in all, with a clock of its own."""

    def __init__(self, cookies: CookieRules = CookieRules()) -> None:  # noqa: B008 - frozen
        self.now = NOON
        self.rows = Rows()
        self.renewed: Grant | None = None
        self.logins = StoredLogins(
            self.rows,
            Sealer(b"secret", "test"),
            SessionLimits(idle=60 * MINUTE, longest=480 * MINUTE),
            cookies,
            self._renew,
            lambda: self.now,
        )

    async def _renew(self, _grant: Grant) -> Grant | None:
        return self.renewed

    def log_in(self, minutes: int = 24 * 60, refresh_token: str | None = None) -> dict[str, str]:
        """The cookies of a login whose token holds for so many minutes."""
        grant = Grant(token="the-token", token_ends_at=self.now + minutes * MINUTE, refresh_token=refresh_token)
        session = asyncio.run(self.logins.begin(grant, tenant="acme", principal="ann"))
        assert session.set_cookie is not None
        name, _, rest = session.set_cookie.partition("=")
        return {name: rest.partition(";")[0]}

    def find(self, cookies: dict[str, str], **options: bool) -> Session | None:
        return asyncio.run(self.logins.find(cookies, **options))

    def pass_minutes(self, minutes: int) -> None:
        self.now += minutes * MINUTE


async def wait_for(fact: Callable[[], object]) -> None:
    """Let others go on until something has come true."""
    for _ in range(5_000):
        if fact():
            return
        await asyncio.sleep(0.001)
    raise AssertionError("it has not come true")


def test_a_login_is_found_by_its_cookie_and_ends_when_it_is_ended():
    desk = Desk()
    cookies = desk.log_in()
    found = desk.find(cookies)
    assert found is not None
    assert (found.token, found.tenant, found.is_login) == ("the-token", "acme", True)
    asyncio.run(desk.logins.end(cookies))
    assert desk.find(cookies) is None


@pytest.mark.parametrize("cookie", ["", "x", "A" * 43, "A" * 44])
def test_an_unknown_cookie_finds_nobody(cookie: str):
    desk = Desk()
    desk.log_in()
    assert desk.find({"statewright": cookie}) is None


def test_a_login_that_is_not_used_ends():
    desk = Desk()
    cookies = desk.log_in()
    desk.pass_minutes(59)
    assert desk.find(cookies) is not None
    desk.pass_minutes(59)
    assert desk.find(cookies) is not None
    desk.pass_minutes(60)
    assert desk.find(cookies) is None


def test_what_a_page_asks_by_itself_keeps_no_login_alive():
    desk = Desk()
    cookies = desk.log_in()
    desk.pass_minutes(40)
    assert desk.find(cookies, is_active=False) is not None
    desk.pass_minutes(40)
    assert desk.find(cookies, is_active=False) is None


def test_a_login_ends_after_its_longest_time_although_it_is_used():
    desk = Desk()
    cookies = desk.log_in()
    for _ in range(9):
        desk.pass_minutes(50)
        assert desk.find(cookies) is not None
    desk.pass_minutes(30)
    assert desk.find(cookies) is None


def test_a_login_ends_with_its_token():
    desk = Desk()
    cookies = desk.log_in(minutes=30)
    desk.pass_minutes(30)
    assert desk.find(cookies) is None


def test_which_of_many_logins_have_ended_is_asked_for_at_once():
    desk = Desk()
    used, idle, ended, expired = (next(iter(desk.log_in(minutes).values())) for minutes in (300, 300, 300, 50))
    asyncio.run(desk.logins.end({"statewright": ended}))
    desk.pass_minutes(59)
    desk.find({"statewright": used})
    desk.pass_minutes(2)
    found = asyncio.run(desk.logins.find_ended([used, idle, ended, expired, "A" * 43]))
    assert found == {idle, ended, expired, "A" * 43}


def test_a_login_whose_token_is_renewed_has_not_ended():
    desk = Desk()
    [login] = desk.log_in(30, refresh_token="again").values()
    desk.renewed = Grant(token="another", token_ends_at=NOON + 90 * MINUTE, refresh_token="again")
    desk.pass_minutes(31)
    assert asyncio.run(desk.logins.find_ended([login])) == frozenset()


async def test_logins_that_have_ended_are_removed_until_none_is_left(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(login_store, "SWEEP_S", 0)
    desk = Desk()
    grant = Grant(token="the-token", token_ends_at=NOON + 10 * MINUTE)
    session = await desk.logins.begin(grant, tenant="acme", principal="ann")
    await wait_for(lambda: len(desk.rows.swept) > 2)
    assert desk.rows.rows
    desk.pass_minutes(11)
    await wait_for(lambda: not desk.rows.rows)
    await wait_for(lambda: len(asyncio.all_tasks()) == 1)
    assert await desk.logins.find({"statewright": session.id}) is None
    await desk.logins.close()


def test_a_token_is_renewed_before_it_ends():
    desk = Desk()
    cookies = desk.log_in(minutes=5, refresh_token="again")
    desk.renewed = Grant(token="the-next", token_ends_at=desk.now + 60 * MINUTE, refresh_token="again")
    desk.now += 4 * MINUTE + MINUTE // 2
    assert _token(desk.find(cookies)) == "the-next"
    assert _token(desk.find(cookies)) == "the-next"
    assert desk.rows.claims == 1


def test_a_token_that_cannot_be_renewed_is_used_until_it_ends():
    desk = Desk()
    cookies = desk.log_in(minutes=5, refresh_token="again")
    desk.now += 4 * MINUTE + MINUTE // 2
    assert _token(desk.find(cookies)) == "the-token"
    desk.now += MINUTE
    desk.rows.claims = 0
    assert desk.find(cookies) is None


def test_a_stored_token_is_unreadable_and_opens_in_no_other_row():
    desk = Desk()
    mine, other = desk.log_in(), desk.log_in()
    digests = list(desk.rows.rows)
    assert all(b"the-token" not in row.sealed for row in desk.rows.rows.values())
    moved = replace(desk.rows.rows[digests[0]], sealed=desk.rows.rows[digests[1]].sealed)
    desk.rows.rows[digests[0]] = moved
    assert desk.find(mine) is None
    assert desk.find(other) is not None


def test_the_id_in_a_cookie_is_not_stored():
    desk = Desk()
    cookie = desk.log_in()["statewright"]
    assert all(cookie.encode() not in row.digest + row.sealed for row in desk.rows.rows.values())


@pytest.mark.parametrize(
    ("rules", "cookie"),
    [
        (
            CookieRules(public_url="https://shop.example"),
            "__Host-statewright=1; Secure; HttpOnly; SameSite=Lax; Path=/",
        ),
        (CookieRules(has_tls=True), "__Host-statewright=1; Secure; HttpOnly; SameSite=Lax; Path=/"),
        (CookieRules(), "statewright=1; HttpOnly; SameSite=Lax; Path=/console"),
    ],
)
def test_cookies_are_as_strict_as_the_address_permits(rules: CookieRules, cookie: str):
    assert rules.format_session("1") == cookie
    assert rules.drop_session().endswith("; Max-Age=0")


@pytest.mark.parametrize(
    ("rules", "origin", "is_refused"),
    [
        (CookieRules(), "http://localhost:8080", False),
        (CookieRules(), "http://127.0.0.1:8080", False),
        (CookieRules(), "http://[::1]:8080", False),
        (CookieRules(), "http://10.0.0.7:8080", True),
        (CookieRules(), "http://orders:8080", True),
        (CookieRules(has_tls=True), "https://orders:8080", False),
        (CookieRules(public_url="https://shop.example"), "http://shop.example", False),  # behind a proxy with TLS
        (CookieRules(public_url="https://shop.example"), "http://127.0.0.1:8080", True),
    ],
)
def test_nobody_logs_in_where_others_could_read_along(rules: CookieRules, origin: str, is_refused: bool):
    assert (rules.find_fault(origin) is not None) == is_refused


@pytest.mark.parametrize(
    "hostile",
    ["", "//evil.example", "https://evil.example/console/", "/\\evil.example", "/console/\\..", "/api/account",
     "/console/login", "/console/login/start?provider=1", "/console/logout", "/console/do/delete", "/console/part/x",
     "/console/a b", "/console/\r\nSet-Cookie:x", "/console/" + "a" * 9_000],
)  # fmt: skip
def test_no_other_site_is_gone_to_after_a_login(hostile: str):
    assert read_target(hostile) == "/console/"


def test_a_page_of_the_console_is_gone_to_after_a_login():
    assert (
        read_target("/console/models/a%2Fb/1?filter=%C3%A4&size=20") == "/console/models/a%2Fb/1?filter=%C3%A4&size=20"
    )


class Shop(Struct, frozen=True):
    """A provider."""

    id: str = "1"
    tenant: str = "acme"
    client_id: str = "console"
    issuer: str = "https://idp.example"
    authorization_endpoint: str = "https://idp.example/authorize?realm=a"
    end_session_endpoint: str = ""


CLAIMS: JsonObject = {"iss": "https://idp.example", "aud": "console", "nonce": "n", "exp": 1_000}


@pytest.mark.parametrize(
    ("claims", "fault"),
    [
        (CLAIMS, None),
        (CLAIMS | {"aud": ["shop", "console"], "azp": "console"}, None),
        (None, "malformed"),
        (CLAIMS | {"iss": "https://evil.example"}, "issuer"),
        (CLAIMS | {"aud": "shop"}, "audience"),
        (CLAIMS | {"aud": ["shop", "console"], "azp": "shop"}, "audience"),
        (CLAIMS | {"nonce": "m"}, "nonce"),
        (CLAIMS | {"nonce": None}, "nonce"),
        (CLAIMS | {"exp": 800}, "expired"),
        (CLAIMS | {"exp": "1000"}, "expired"),
    ],
)
def test_an_id_token_has_to_be_of_this_provider_client_and_login(claims: "JsonObject | None", fault: str | None):
    told = None if claims is None else convert(claims, Claims)
    assert find_id_token_fault(told, Shop(), "n", 900 * 1_000_000) == fault


def test_a_provider_is_asked_for_a_code_that_only_this_browser_can_redeem():
    flow = begin_flow("1", "/console/", NOON)
    url = build_authorization_url(Shop(), flow, "https://shop.example")
    assert url.startswith("https://idp.example/authorize?realm=a&response_type=code&client_id=console&")
    assert "redirect_uri=https%3A%2F%2Fshop.example%2Fconsole%2Flogin%2Fcallback" in url
    assert flow.verifier not in url
    assert decode_flow(flow.encode(), NOON + 9 * MINUTE) == flow
    assert decode_flow(flow.encode(), NOON + 10 * MINUTE) is None


class Watch:
    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


def test_an_account_may_fail_ten_times_in_a_minute_at_an_address():
    watch = Watch()
    attempts = LoginAttempts(watch)
    assert [attempts.begin("10.0.0.1", "shop") for _ in range(11)] == [True] * 10 + [False]
    assert attempts.begin("10.0.0.2", "shop")
    assert attempts.begin("10.0.0.1", "desk"), "whoever else comes through the same proxy"
    watch.seconds = 60.0
    assert attempts.begin("10.0.0.1", "shop")


def test_an_address_may_fail_a_hundred_times_with_whatever_accounts():
    attempts = LoginAttempts(Watch())
    assert all(attempts.begin("10.0.0.1", f"account-{number}") for number in range(100))
    assert not attempts.begin("10.0.0.1", "another")
    attempts.succeed("10.0.0.1", "account-1")
    assert attempts.begin("10.0.0.1", "another")


def test_the_addresses_of_one_site_fail_together():
    attempts = LoginAttempts(Watch())
    assert all(attempts.begin(f"2001:db8:1:2::{number:x}", "shop") for number in range(10))
    assert not attempts.begin("2001:db8:1:2:ffff::1", "shop")
    attempts.succeed("2001:db8:1:2::abcd", "shop")
    assert attempts.begin("2001:db8:1:2:ffff::1", "shop")
    assert attempts.begin("2001:db8:1:3::1", "shop")


def test_a_login_that_succeeds_is_no_failure():
    attempts = LoginAttempts(Watch())
    for _ in range(50):
        assert attempts.begin("10.0.0.1", "shop")
        attempts.succeed("10.0.0.1", "shop")


def _token(session: Session | None) -> str | None:
    return None if session is None else session.token
