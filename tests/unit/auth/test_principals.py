"""From claims to principals (docs/reference/authentication.md#principals,
docs/reference/authentication.md#claims-that-are-read).
"""

import pytest

from statewright.auth import build_mock_principal
from statewright.auth.principals import kind_from_claims, principal_from_claims, roles_from_claims
from tests.unit.auth.builders import ABSENT, claims


def test_the_mock_principal_is_always_the_same():
    principal = build_mock_principal(["ROLE_ADMIN"], "service")
    assert (principal.id, principal.name, principal.tenant) == ("mock-user-001", "Mock User", "mock-tenant")
    assert (principal.kind, principal.roles) == ("service", ("ROLE_ADMIN",))


def test_the_user_id_claim_wins_over_the_subject_and_is_the_name_too():
    principal = principal_from_claims(claims(caas_user_id="u-1"))
    assert principal is not None
    assert (principal.id, principal.name, principal.tenant) == ("u-1", "u-1", "acme")


@pytest.mark.parametrize("user_id", [ABSENT, "", 5, None, ["u"]])
def test_the_subject_stands_in_for_a_user_id_that_is_no_text(user_id: object):
    principal = principal_from_claims(claims(caas_user_id=user_id))
    assert principal is not None
    assert principal.id == "ann"


@pytest.mark.parametrize(
    "change", [{"sub": ABSENT}, {"sub": ""}, {"sub": 7}, {"caas_org_id": ABSENT}, {"caas_org_id": ""}]
)
def test_claims_without_a_user_or_a_tenant_are_nobody(change: dict[str, object]):
    assert principal_from_claims(claims(**change)) is None


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        ({"user_roles": []}, "user"),
        ({"user_roles": None}, "user"),
        ({"user_roles": None, "scopes": ["A"]}, "user"),
        ({"scopes": ["A"]}, "service"),
        ({"scopes": None}, "service"),
        ({}, "user"),
    ],
)
def test_which_claims_are_there_decides_the_kind(said: dict[str, object], kind: str):
    assert kind_from_claims(said) == kind


@pytest.mark.parametrize(
    ("said", "roles"),
    [
        ({"user_roles": ["A", "B"], "scopes": ["C"]}, ("A", "B")),
        ({"user_roles": [], "scopes": ["C"]}, ("C",)),
        ({"user_roles": [1, None, True], "scopes": ["C"]}, ("C",)),
        ({"user_roles": ["A", 1, ["B"], "A\0B"]}, ("A",)),
        ({"user_roles": "A B"}, ()),
        ({"scopes": "A B"}, ()),
        ({"roles": ["A"]}, ()),
    ],
)
def test_roles_are_the_texts_in_the_first_array_that_has_any(said: dict[str, object], roles: tuple[str, ...]):
    assert roles_from_claims(said) == roles
