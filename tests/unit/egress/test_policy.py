"""What of a URL is refused before anything is looked up (docs/reference/egress.md#what-is-refused)."""

import httpx
import pytest

from statewright.egress import EgressPolicy, HttpFailure


def find_reason(url: str, policy: EgressPolicy | None = None) -> str:
    """Why the URL is refused; ``ok`` when it is not."""
    checked = (policy or EgressPolicy()).check_url(url)
    return checked.reason if isinstance(checked, HttpFailure) else "ok"


@pytest.mark.parametrize(
    "url", ["https://example.com", "http://example.com:8080/a?b=c", "https://8.8.8.8/", "https://[2606:4700::1111]/x"]
)
def test_ordinary_urls_pass(url: str):
    assert find_reason(url) == "ok"


@pytest.mark.parametrize(
    "url",
    [
        *(
            "",
            "/relative",
            "example.com",
            "https://",
            "https:///path",
            "http://[::1",
            "https://exa mple.com",
            "http://:80",
        ),
        *("https://user:secret@example.com/", "https://user@example.com/", "http://[fe80::1%25eth0]/"),
        "https://example.com/" + "a" * 9000,
        "https://example.com/\r\nHost: other",
    ],
)
def test_what_is_no_absolute_url_with_a_host_is_malformed(url: str):
    assert find_reason(url) == "url_malformed"


def test_no_credentials_of_a_url_are_repeated():
    checked = EgressPolicy().check_url("https://user:hunter2@example.com/?token=hunter3")
    assert isinstance(checked, HttpFailure)
    assert "hunter" not in str(checked)


@pytest.mark.parametrize(
    "url", ["ftp://example.com/", "file://host/etc/passwd", "gopher://example.com/", "ws://a.test/"]
)
def test_other_schemes_are_refused(url: str):
    assert find_reason(url) == "scheme_refused"


def test_a_policy_may_require_https():
    assert find_reason("http://example.com/", EgressPolicy(requires_https=True)) == "scheme_refused"
    assert find_reason("https://example.com/", EgressPolicy(requires_https=True)) == "ok"


@pytest.mark.parametrize("port", [22, 25, 444, 1023])
def test_ports_of_other_services_are_refused(port: int):
    assert find_reason(f"https://example.com:{port}/") == "port_refused"


def test_the_default_port_of_the_scheme_counts():
    assert find_reason("http://example.com/", EgressPolicy(ports=((443, 443),))) == "port_refused"
    assert find_reason("https://example.com/", EgressPolicy(ports=((443, 443),))) == "ok"


@pytest.mark.parametrize("host", ["127.0.0.1", "169.254.169.254", "[::1]", "[::ffff:10.0.0.1]", "10.0.0.1"])
def test_addresses_in_urls_are_checked(host: str):
    assert find_reason(f"http://{host}/") == "address_refused"


@pytest.mark.parametrize(
    ("host", "reason"),
    [
        ("api.example.com", "ok"),
        ("API.Example.Com", "ok"),
        ("api.example.com.", "ok"),
        ("a.b.example.org", "ok"),
        ("example.org", "host_refused"),
        ("evil-api.example.com", "host_refused"),
        ("api.example.com.evil.test", "host_refused"),
    ],
)
def test_requests_may_be_confined_to_hosts(host: str, reason: str):
    policy = EgressPolicy(hosts=("api.example.com", "*.example.org"))
    assert find_reason(f"https://{host}/", policy) == reason


def test_a_url_that_passes_is_the_one_that_is_called():
    checked = EgressPolicy().check_url("https://bücher.example/a%2Fb?q=ä#fragment")
    assert isinstance(checked, httpx.URL)
    assert checked.raw_host == b"xn--bcher-kva.example"
    assert checked.raw_path == b"/a%2Fb?q=%C3%A4"
