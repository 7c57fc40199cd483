"""Which requests of web pages are refused where nobody has to say who he is, decision A5
(docs/reference/authentication.md#web-pages).
"""

import pytest

from statewright.api.http.security import MAX_KNOWN_HOSTS, PageGuard
from statewright.settings import Settings, SettingsError

PAGE = b"http://evil.example"


def find_status(guard: PageGuard, method: str = "GET", **headers: bytes) -> int | None:
    fault = guard.find_fault(method, {name.replace("_", "-").encode(): value for name, value in headers.items()})
    return fault.status if fault else None


@pytest.mark.parametrize(
    "host",
    [b"127.0.0.1:8080", b"localhost", b"LOCALHOST:8080", b"[::1]:8080", b"[fe80::1]", b"10.1.2.3", b"dev:8080", b""],
)
def test_addresses_and_names_without_a_dot_are_answered(host: bytes):
    assert find_status(PageGuard((), ()), host=host) is None


@pytest.mark.parametrize(
    "host",
    [b"evil.example", b"evil.example:8080", b"127.0.0.1.evil.example", b"localhost.evil.example", b"localhost.",
     b"1.2.3", b"[::1", b"[::1].evil.example", b"evil.example:80:80", b"\xff.example"],
)  # fmt: skip
def test_a_name_that_somebody_else_may_have_is_misdirected_whatever_is_asked(host: bytes):
    for method in ("GET", "HEAD", "OPTIONS", "POST"):
        assert find_status(PageGuard(("other.example",), ()), method, host=host) == 421, method


def test_configured_names_are_answered_on_every_port():
    guard = PageGuard(("dev.example",), ())
    assert find_status(guard, host=b"dev.example") is None
    assert find_status(guard, host=b"Dev.Example:8443") is None
    assert find_status(guard, host=b"x.dev.example") == 421
    assert find_status(PageGuard(("*",), ()), host=b"any.example") is None


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "BREW"])
@pytest.mark.parametrize(
    "origin", [PAGE, b"null", b"http://localhost.evil.example", b"http://localhost:8080.evil.example"]
)
def test_a_foreign_page_changes_nothing(method: str, origin: bytes):
    assert find_status(PageGuard((), ()), method, host=b"localhost", origin=origin) == 403


def test_a_foreign_page_may_ask_for_what_its_browser_does_not_show_it():
    guard = PageGuard((), ())
    for method in ("GET", "HEAD", "OPTIONS"):
        assert find_status(guard, method, host=b"localhost", origin=PAGE, sec_fetch_site=b"cross-site") is None


@pytest.mark.parametrize(
    ("host", "origin"),
    [
        (b"localhost:8080", b"http://localhost:8080"),
        (b"localhost:8080", b"http://localhost:3000"),
        (b"localhost:8080", b"https://127.0.0.1:3000"),
        (b"10.1.2.3:8080", b"http://10.1.2.3:8080"),
        (b"dev:8080", b"http://dev:8080"),
    ],
)
def test_pages_of_the_service_and_of_this_machine_may(host: bytes, origin: bytes):
    assert find_status(PageGuard((), ()), "POST", host=host, origin=origin) is None


def test_only_configured_origins_may_where_there_are_some():
    guard = PageGuard((), ("https://app.example",))
    assert (
        find_status(guard, "POST", host=b"localhost", origin=b"https://app.example", sec_fetch_site=b"cross-site")
        is None
    )
    assert find_status(guard, "POST", host=b"localhost", origin=b"http://localhost:3000") == 403
    assert find_status(guard, "POST", host=b"localhost", origin=b"http://localhost") is None
    assert find_status(PageGuard((), ("*",)), "POST", host=b"localhost", origin=b"null") is None


def test_without_cors_only_pages_of_the_service_itself_may():
    guard = PageGuard((), None)
    assert find_status(guard, "POST", host=b"localhost:8080", origin=b"http://localhost:3000") == 403
    assert find_status(guard, "POST", host=b"localhost:8080", origin=b"http://localhost:8080") is None


def test_where_a_browser_names_no_origin_its_word_on_the_site_counts():
    guard = PageGuard((), ())
    assert find_status(guard, "POST", host=b"localhost", sec_fetch_site=b"cross-site") == 403
    for word in (b"same-origin", b"same-site", b"none"):
        assert find_status(guard, "POST", host=b"localhost", sec_fetch_site=word) is None
    assert find_status(guard, "POST", host=b"localhost") is None


def test_who_has_credentials_may_ask_from_anywhere_where_only_some_have_none():
    guard = PageGuard((), (), anonymous_only=True)
    assert find_status(guard, "POST", host=b"evil.example", origin=PAGE, authorization=b"Bearer x") is None
    assert find_status(guard, "POST", host=b"localhost", origin=PAGE, authorization=b"") == 403
    assert find_status(guard, "POST", host=b"evil.example") == 421


def test_the_message_names_the_setting_that_opens_it():
    guard = PageGuard((), ())
    misdirected, foreign = (
        guard.find_fault("POST", {b"host": b"evil.example"}),
        guard.find_fault("POST", {b"host": b"localhost", b"origin": PAGE}),
    )
    assert misdirected is not None
    assert '"evil.example"' in misdirected.message
    assert "STATEWRIGHT_ALLOWED_HOSTS" in misdirected.message
    assert foreign is not None
    assert "http://evil.example" in foreign.message
    assert "STATEWRIGHT_CORS_ALLOWED_ORIGINS" in foreign.message


def test_names_that_strangers_invent_are_not_all_kept():
    guard = PageGuard((), ())
    for number in range(MAX_KNOWN_HOSTS * 3):
        assert find_status(guard, host=b"%d.evil.example" % number) == 421
    assert guard.known_hosts <= MAX_KNOWN_HOSTS


def test_hosts_are_read_as_names_without_ports():
    settings = Settings.from_environment({"STATEWRIGHT_ALLOWED_HOSTS": "Dev.Example, host.docker.internal"})
    assert settings.allowed_hosts == ("dev.example", "host.docker.internal")
    for wrong in ("dev.example:8080", "http://dev.example", "*.example", "a..b"):
        with pytest.raises(SettingsError, match="STATEWRIGHT_ALLOWED_HOSTS"):
            Settings.from_environment({"STATEWRIGHT_ALLOWED_HOSTS": wrong})
