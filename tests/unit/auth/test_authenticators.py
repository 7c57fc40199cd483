"""From the ``Authorization`` header to a principal (docs/reference/authentication.md#modes)."""

import pytest

from statewright.auth import AuthenticationFailed, JwtAuthenticator, MockAuthenticator, build_mock_principal
from tests.unit.auth.builders import minted, verifier


def jwt_authenticator() -> JwtAuthenticator:
    return JwtAuthenticator(verifier())


@pytest.mark.parametrize("header", [None, "", "Bearer nonsense", "Basic x"])
def test_in_mock_mode_everybody_is_the_mock_principal(header: str | None):
    principal = build_mock_principal(["ROLE_M2M"], "user")
    assert MockAuthenticator(principal).authenticate(header) is principal


def test_a_bearer_token_authenticates():
    assert jwt_authenticator().authenticate(f"Bearer {minted()}").id == "ann"


@pytest.mark.parametrize(
    ("header", "reason"),
    [
        (None, "missing-header"),
        ("", "missing-header"),
        ("Bearer", "empty-bearer"),
        ("Bearerx", "invalid-format"),
        ("bearer x.y.z", "invalid-format"),
        ("Basic cm9ib3Q6eA==", "invalid-format"),
        ("Bearer ", "empty-bearer"),
        ("Bearer  x", "token-invalid"),
        ("Bearer x", "token-invalid"),
    ],
)
def test_the_reason_of_a_refusal_is_for_the_log(header: str | None, reason: str):
    with pytest.raises(AuthenticationFailed) as refused:
        jwt_authenticator().authenticate(header)
    assert refused.value.reason == reason


@pytest.mark.parametrize(
    "header", [None, "Bearer ", "Bearer x", f"Bearer {minted('stranger')}", f"Bearer {minted(exp=0)}"]
)
def test_every_client_is_told_the_same(header: str | None):
    with pytest.raises(AuthenticationFailed) as refused:
        jwt_authenticator().authenticate(header)
    assert (refused.value.status, refused.value.detail) == (401, "UNAUTHORIZED: authentication failed")
    assert not refused.value.properties


def test_the_log_learns_what_was_wrong_with_a_token_but_nothing_of_the_token():
    with pytest.raises(AuthenticationFailed) as refused:
        jwt_authenticator().authenticate(f"Bearer {minted(exp=0)}")
    assert refused.value.detail_for_log == "token expired"


def test_one_blank_stands_between_scheme_and_token():
    with pytest.raises(AuthenticationFailed):
        jwt_authenticator().authenticate(f"Bearer  {minted()}")
