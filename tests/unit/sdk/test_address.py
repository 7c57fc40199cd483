"""How people write where the service is, who they are, and whom they trust."""

from pathlib import Path

import pytest

from statewright.sdk.endpoint import Tls, UnusableAddress, UnusableTls, parse_address, read_address, read_tls
from statewright.sdk.errors import TokenUnavailable
from statewright.sdk.tokens import ClientCredentials, ClientKey, make_token_source, read_token
from tests.certificates import Authority


@pytest.mark.parametrize(
    ("text", "origin", "api"),
    [
        ("http://localhost:8080", "http://localhost:8080", "http://localhost:8080/api"),
        ("http://localhost:8080/", "http://localhost:8080", "http://localhost:8080/api"),
        ("http://localhost:8080/api", "http://localhost:8080", "http://localhost:8080/api"),
        (" https://example.org/api/ ", "https://example.org", "https://example.org/api"),
        ("https://example.org/prizes/v2", "https://example.org", "https://example.org/prizes/v2"),
        ("http://[::1]:8080", "http://[::1]:8080", "http://[::1]:8080/api"),
    ],
)
def test_an_address_is_that_of_the_service_or_of_its_api(text: str, origin: str, api: str) -> None:
    address = parse_address(text)
    assert (address.origin, address.api) == (origin, api)


@pytest.mark.parametrize("text", ["", "localhost:8080", "ftp://host", "http://", "http://h:port", "http://h/?a=b"])
def test_other_texts_are_no_addresses(text: str) -> None:
    with pytest.raises(UnusableAddress, match="not the address of a service"):
        parse_address(text)


def test_what_is_given_wins_over_the_environment_and_that_over_this_machine() -> None:
    assert read_address({}).api == "http://127.0.0.1:8080/api"
    assert read_address({"STATEWRIGHT_URL": "http://a"}).api == "http://a/api"
    assert read_address({"STATEWRIGHT_URL": "http://a"}, "http://b").api == "http://b/api"


def test_the_older_name_is_still_read() -> None:
    assert read_address({"STATEWRIGHT_API_URL": "http://a/api", "STATEWRIGHT_URL": ""}).api == "http://a/api"


def test_the_context_path_of_the_service_stands_in_for_api() -> None:
    assert read_address({"STATEWRIGHT_CONTEXT_PATH": ""}, "http://a").api == "http://a"
    assert read_address({"STATEWRIGHT_CONTEXT_PATH": "/p/"}, "http://a").api == "http://a/p"


def test_a_token_wins_over_credentials() -> None:
    credentials = {"STATEWRIGHT_CLIENT_ID": "me", "STATEWRIGHT_CLIENT_SECRET": "s"}
    assert read_token({**credentials, "STATEWRIGHT_TOKEN": "t"}) == "t"
    assert read_token(credentials) == ClientCredentials(client_id="me", client_secret="s")
    assert read_token({}) is None


@pytest.mark.parametrize("name", ["STATEWRIGHT_API_TOKEN", "STATEWRIGHT_COMPUTE_TOKEN", "CYODA_COMPUTE_TOKEN"])
def test_the_older_names_of_the_token_are_still_read(name: str) -> None:
    assert read_token({name: "t"}) == "t"


def test_a_client_may_have_a_key_in_place_of_a_secret(tmp_path: Path) -> None:
    file = tmp_path / "key.pem"
    file.write_text("pem")
    named = {"STATEWRIGHT_CLIENT_ID": "me", "STATEWRIGHT_CLIENT_SIGNING_KEY_FILE": str(file)}
    with pytest.raises(ValueError, match="STATEWRIGHT_CLIENT_SIGNING_KEY_ID must be set, too"):
        read_token(named)
    named["STATEWRIGHT_CLIENT_SIGNING_KEY_ID"] = "k"
    assert read_token(named) == ClientKey(client_id="me", key_id="k", private_key="pem", audience="cyoda")
    named["STATEWRIGHT_TOKEN_AUDIENCE"] = "https://here"
    assert read_token(named) == ClientKey(client_id="me", key_id="k", private_key="pem", audience="https://here")


def test_no_representation_shows_a_secret() -> None:
    assert "s3cret" not in repr(ClientCredentials(client_id="me", client_secret="s3cret"))
    assert "s3cret" not in repr(ClientKey(client_id="me", key_id="k", private_key="s3cret"))


def test_a_key_that_is_none_is_told_without_its_text() -> None:
    tokens = make_token_source(ClientKey(client_id="me", key_id="k", private_key="s3cret", token_url="http://a"))
    with pytest.raises(TokenUnavailable, match="no RSA key in PEM") as unavailable:
        tokens.get_token_blocking()
    assert "s3cret" not in str(unavailable.value)


def test_secrets_may_stand_in_files(tmp_path: Path) -> None:
    secret, token = tmp_path / "secret", tmp_path / "token"
    secret.write_text("s3cret\n")
    token.write_text("t-1\n")
    given = read_token({"STATEWRIGHT_CLIENT_ID": "me", "STATEWRIGHT_CLIENT_SECRET_FILE": str(secret)})
    assert given == ClientCredentials(client_id="me", client_secret="s3cret")
    read = read_token({"STATEWRIGHT_TOKEN_FILE": str(token)})
    assert callable(read)
    assert read() == "t-1"
    token.write_text("t-2\n")
    assert read() == "t-2"


@pytest.mark.parametrize(
    ("given", "missing"),
    [
        ({"STATEWRIGHT_CLIENT_ID": "me"}, "STATEWRIGHT_CLIENT_SECRET"),
        ({"STATEWRIGHT_CLIENT_SECRET": "s"}, "STATEWRIGHT_CLIENT_ID"),
    ],
)
def test_half_of_the_credentials_is_refused(given: dict[str, str], missing: str) -> None:
    with pytest.raises(ValueError, match=f"{missing} must be set, too"):
        read_token(given)


def test_certificates_are_named_by_the_environment() -> None:
    named = {"STATEWRIGHT_CA": "a", "STATEWRIGHT_CLIENT_CERT": "c", "STATEWRIGHT_CLIENT_KEY": "k"}
    assert read_tls(named) == Tls(ca="a", cert="c", key="k")
    assert read_tls({"STATEWRIGHT_CA": ""}) == Tls()


def test_files_that_cannot_be_used_are_named(tmp_path: Path) -> None:
    certificate, key = Authority(tmp_path).issue("client")
    text = tmp_path / "text"
    text.write_text("no PEM")
    for tls, problem in (
        (Tls(ca=tmp_path / "nosuch"), r"nosuch \(STATEWRIGHT_CA\): No such file"),
        (Tls(ca=text), r"text \(STATEWRIGHT_CA\): "),
        (Tls(cert=certificate), "STATEWRIGHT_CLIENT_CERT and STATEWRIGHT_CLIENT_KEY go together"),
        (
            Tls(cert=key, key=certificate),
            r"client.key \(STATEWRIGHT_CLIENT_CERT\), .*client.crt \(STATEWRIGHT_CLIENT_KEY\): ",
        ),
    ):
        with pytest.raises(UnusableTls, match=problem):
            tls.build_context()
        with pytest.raises(UnusableTls, match=problem):
            tls.build_credentials()
