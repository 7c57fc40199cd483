"""Identity providers of tenants: administration, and tokens of theirs (docs/reference/oidc.md)."""

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from time import time
from typing import Any
from uuid import UUID, uuid4

import grpc
import grpc.aio
import httpx
import pytest

from statewright.api.grpc.server import SERVICE_NAME
from statewright.proto.cloudevents_pb2 import CloudEvent
from tests.identity_provider import DISCOVERY, KEYS, IdentityProvider, identity_provider, public_jwk, reply
from tests.integration.identity.conftest import administrator
from tests.service import PATIENCE_S, Api, RunningService, a_token, done, eventually, refused

PROVIDERS = "/oauth/oidc/providers"


@pytest.fixture
def tenant() -> str:
    """Tenants with providers have UUIDs."""
    return str(uuid4())


@pytest.fixture
def admin(launched: RunningService, tenant: str) -> Api:
    return administrator(launched, tenant)


@pytest.fixture
def idp() -> Iterator[IdentityProvider]:
    with identity_provider() as provider:
        yield provider


def register(admin: Api, idp: IdentityProvider, **members: Any) -> dict[str, Any]:
    registered: dict[str, Any] = done(admin.post(PROVIDERS, {"wellKnownConfigUri": idp.uri} | members))
    return registered


def status_of(service: RunningService, token: str) -> int:
    return Api(service.url, token).get("/account").status_code


def account(service: RunningService, token: str) -> dict[str, Any]:
    found: dict[str, Any] = done(Api(service.url, token).get("/account"))["userAccountInfo"]
    return found


def roles(service: RunningService, token: str) -> list[str]:
    return [role["id"] for role in account(service, token)["roles"]]


# Administration.


def test_a_provider_is_shown_with_exactly_its_members(admin: Api, idp: IdentityProvider):
    shown = register(admin, idp)
    assert set(shown) == {"id", "active", "createdAt", "wellKnownConfigUri"}
    assert (str(UUID(shown["id"])), shown["active"], shown["wellKnownConfigUri"]) == (shown["id"], True, idp.uri)
    wanted = {"issuers": [idp.issuer], "expectedAudiences": ["shop"], "rolesClaim": "groups"}
    changed = done(admin.request("PATCH", f"{PROVIDERS}/{shown['id']}", wanted))
    assert changed == shown | wanted
    assert done(admin.get(PROVIDERS)) == [changed]


def test_what_is_had_of_the_keys_is_told_where_it_is_asked_for(admin: Api, idp: IdentityProvider):
    idp.fail()
    shown = done(admin.post(f"{PROVIDERS}?withKeys=true", {"wellKnownConfigUri": idp.uri}))
    assert shown["keys"] == {"problem": "no discovery document: status 503"}
    assert done(admin.get(f"{PROVIDERS}?withKeys=true")) == [shown]
    assert done(admin.get(PROVIDERS)) == [{name: told for name, told in shown.items() if name != "keys"}]
    idp.answers.clear()
    path = f"{PROVIDERS}/{shown['id']}"
    keys = done(admin.request("PATCH", f"{path}?withKeys=true", {}))["keys"]
    assert (keys.keys(), keys["issuer"]) == ({"issuer", "fetchedAt"}, idp.issuer)
    keys = done(admin.request("PATCH", f"{path}?withKeys=true", {"issuers": ["https://other.test"]}))["keys"]
    assert keys["problem"] == f"the document names another issuer: {idp.issuer}"
    done_empty(admin.post(f"{path}/invalidate"))
    assert [one["keys"] for one in done(admin.get(f"{PROVIDERS}?withKeys=true"))] == [{}]


@pytest.mark.parametrize(
    ("body", "detail"),
    [
        (b"", "invalid request body"),
        ("[]", "invalid request body"),
        ({"wellKnownConfigUri": 1}, "invalid request body"),
        ({}, "wellKnownConfigUri is required"),
        ({"wellKnownConfigUri": None}, "wellKnownConfigUri is required"),
        ({"wellKnownConfigUri": ""}, "wellKnownConfigUri must be a non-empty string"),
        ({"wellKnownConfigUri": "https://a.test/" + "x" * 1000}, "wellKnownConfigUri is longer than 1000 bytes"),
        ({"wellKnownConfigUri": "ftp://a.test/x"}, "wellKnownConfigUri: the scheme must be http or https"),
        ({"wellKnownConfigUri": "https:///x"}, "wellKnownConfigUri: not an absolute URL with a host"),
        ({"issuers": ["x"] * 11}, "issuers has more than 10 entries"),
        ({"issuers": [""]}, "an entry of issuers is empty, or longer than 1000 bytes"),
        ({"issuers": ["x" * 1001]}, "an entry of issuers is empty, or longer than 1000 bytes"),
        ({"issuers": "x"}, "invalid request body"),
        ({"issuers": [1]}, "invalid request body"),
        ({"expectedAudiences": ["x"] * 11}, "expectedAudiences has more than 10 entries"),
        ({"expectedAudiences": [""]}, "an entry of expectedAudiences is empty, or longer than 1000 bytes"),
        ({"rolesClaim": "x" * 101}, "rolesClaim is longer than 100 bytes"),
        ({"rolesClaim": []}, "invalid request body"),
    ],
)
def test_a_registration_that_is_wrong_says_what(admin: Api, idp: IdentityProvider, body: Any, detail: str):
    if isinstance(body, dict) and not {"wellKnownConfigUri"} & body.keys() and body:
        body = {"wellKnownConfigUri": idp.uri} | body
    problem = refused(admin.post(PROVIDERS, body), 400, "BAD_REQUEST")
    assert problem["detail"] == f"BAD_REQUEST: {detail}"
    assert done(admin.get(PROVIDERS)) == []


def test_unset_members_and_unknown_ones_are_left_out(admin: Api, idp: IdentityProvider):
    shown = register(admin, idp, issuers=None, expectedAudiences=[], rolesClaim="", name="x", audienceClaim="y")
    assert set(shown) == {"id", "active", "createdAt", "wellKnownConfigUri", "rolesClaim"}
    assert shown["rolesClaim"] == ""


def test_a_uri_is_registered_once_in_a_tenant(admin: Api, idp: IdentityProvider):
    first = register(admin, idp)
    refused(admin.post(PROVIDERS, {"wellKnownConfigUri": idp.uri}), 409, "OIDC_PROVIDER_DUPLICATE")
    done_empty(admin.post(f"{PROVIDERS}/{first['id']}/invalidate"))
    refused(admin.post(PROVIDERS, {"wellKnownConfigUri": idp.uri}), 409, "OIDC_PROVIDER_DUPLICATE")
    done_empty(admin.delete(f"{PROVIDERS}/{first['id']}"))
    again = register(admin, idp)
    assert again["id"] != first["id"]
    assert again["createdAt"] > first["createdAt"]


def done_empty(response: httpx.Response) -> None:
    """A success without a body."""
    assert (response.status_code, response.content, "content-type" in response.headers) == (200, b"", False)


def test_only_tenants_with_uuids_have_providers(launched: RunningService, idp: IdentityProvider):
    for name in ("default-tenant", str(uuid4()).upper()):
        body = {"wellKnownConfigUri": idp.uri}
        refused(administrator(launched, name).post(PROVIDERS, body), 400, "OIDC_INVALID_TENANT")
        nowhere = {"wellKnownConfigUri": "https://nowhere.invalid/"}
        refused(administrator(launched, name).post(PROVIDERS, nowhere), 400, "OIDC_INVALID_TENANT")


def test_a_patch_leaves_clears_and_sets(admin: Api, idp: IdentityProvider):
    shown = register(admin, idp, issuers=[idp.issuer], expectedAudiences=["a"], rolesClaim="g")
    path = f"{PROVIDERS}/{shown['id']}"
    assert done(admin.request("PATCH", path, {})) == shown
    assert done(admin.request("PATCH", path, {"wellKnownConfigUri": "https://other.test/"})) == shown
    cleared = done(admin.request("PATCH", path, {"issuers": None, "expectedAudiences": []}))
    assert cleared == {key: value for key, value in shown.items() if key not in {"issuers", "expectedAudiences"}}
    assert "rolesClaim" not in done(admin.request("PATCH", path, {"rolesClaim": None}))
    refused(admin.request("PATCH", path, {"issuers": [""]}), 400, "BAD_REQUEST")
    refused(admin.request("PATCH", path, {"issuers": 5}), 400, "BAD_REQUEST")


def test_the_life_of_a_provider(launched: RunningService, admin: Api, idp: IdentityProvider):
    shown = register(admin, idp)
    path, token = f"{PROVIDERS}/{shown['id']}", idp.mint()
    assert status_of(launched, token) == 200
    assert done(admin.post(f"{path}/reactivate")) == shown
    for _ in range(2):
        done_empty(admin.post(f"{path}/invalidate"))
        assert status_of(launched, token) == 401
    refused(admin.request("PATCH", path, {}), 409, "OIDC_PROVIDER_INACTIVE")
    assert [one["active"] for one in done(admin.get(PROVIDERS))] == [False]
    assert done(admin.get(f"{PROVIDERS}?activeOnly=true")) == []
    done_empty(admin.post(f"{PROVIDERS}/reload"))
    assert status_of(launched, token) == 401
    for body in (b"", {"reactivateKeys": False}):
        assert done(admin.post(f"{path}/reactivate", body)) == shown
    assert status_of(launched, token) == 200
    done_empty(admin.delete(path))
    assert status_of(launched, token) == 401
    refused(admin.delete(path), 404, "OIDC_PROVIDER_NOT_FOUND")


def test_a_provider_of_another_tenant_is_like_none(launched: RunningService, admin: Api, idp: IdentityProvider):
    shown = register(admin, idp)
    stranger = administrator(launched, str(uuid4()))
    calls = [("PATCH", "", {}), ("DELETE", "", b""), ("POST", "/invalidate", b""), ("POST", "/reactivate", b"")]
    for method, rest, body in calls:
        foreign = stranger.request(method, f"{PROVIDERS}/{shown['id']}{rest}", body)
        unknown = stranger.request(method, f"{PROVIDERS}/{uuid4()}{rest}", body)
        refused(foreign, 404, "OIDC_PROVIDER_NOT_FOUND")
        texts = [answer.text.split('"instance"')[0] for answer in (foreign, unknown)]
        assert texts[0] == texts[1]
        assert [answer.headers.get("content-type") for answer in (foreign, unknown)] == ["application/problem+json"] * 2
        malformed = refused(stranger.request(method, f"{PROVIDERS}/nonsense{rest}", body), 400, "BAD_REQUEST")
        assert malformed["properties"]["parameter"] == "id"
    assert done(admin.get(PROVIDERS)) == [shown]
    assert done(stranger.get(PROVIDERS)) == []


def test_one_of_many_registrations_at_once_wins(launched: RunningService, admin: Api, idp: IdentityProvider):
    barrier, statuses = threading.Barrier(6), list[int]()

    def run() -> None:
        barrier.wait()
        statuses.append(admin.post(PROVIDERS, {"wellKnownConfigUri": idp.uri}).status_code)

    threads = [threading.Thread(target=run) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(statuses) == [200] + [409] * 5


def test_acts_on_providers_are_in_the_trail_of_operators(admin: Api, idp: IdentityProvider, launched: RunningService):
    shown = register(admin, idp)
    path = f"{PROVIDERS}/{shown['id']}"
    admin.request("PATCH", path, {"rolesClaim": "groups"})
    for rest in ("/invalidate", "/reactivate"):
        admin.post(f"{path}{rest}")
    admin.delete(path)
    items = done(Api(f"{launched.root}/ops/v1", admin.token).get("/audit"))["items"]
    names = [item["action"].removeprefix("oidc_provider.") for item in reversed(items)]
    assert names == ["register", "update", "invalidate", "reactivate", "delete"]
    assert {item["target"]["id"] for item in items} == {shown["id"]}
    assert idp.root not in str(items)


# Tokens.


def test_a_token_acts_for_a_user_of_the_tenant_that_owns_the_provider(
    launched: RunningService, admin: Api, tenant: str, idp: IdentityProvider
):
    shown = register(admin, idp)
    foreign = {"caas_org_id": "other", "caas_user_id": "root", "user_roles": ["ROLE_ADMIN"], "scopes": ["ROLE_M2M"]}
    found = account(launched, idp.mint(sub="ann:x", **foreign, tid="t", tenant="t", org="o"))
    assert (found["userId"], found["userName"]) == (f"oidc:{shown['id']}:ann:x", "ann:x")
    assert found["legalEntity"] == {"id": tenant, "name": tenant}
    assert found["roles"] == []


@pytest.mark.parametrize(
    ("claim", "value", "expected"),
    [
        ("roles", ["ROLE_ADMIN", "B"], ["ROLE_ADMIN", "B"]),
        ("roles", "A  B\tC", ["A", "B", "C"]),
        ("roles", {"A": 1, "B": {}}, ["A", "B"]),
        ("roles", ["A", "", "b,c", "b\0c", 5, None, ["x"]], ["A"]),
        ("roles", None, []),
        ("roles", 7, []),
        ("roles", True, []),
        ("groups", ["A"], []),
    ],
)
def test_roles_are_those_of_one_claim(
    launched: RunningService, admin: Api, idp: IdentityProvider, claim: str, value: Any, expected: list[str]
):
    register(admin, idp)
    assert roles(launched, idp.mint(**{claim: value})) == expected


@pytest.mark.parametrize("claim", ["cognito:groups", "https://app.example.org/roles", "a.b.c"])
def test_the_name_of_the_claim_is_no_path(launched: RunningService, admin: Api, idp: IdentityProvider, claim: str):
    register(admin, idp, rolesClaim=claim)
    assert roles(launched, idp.mint(**{claim: ["ROLE_ADMIN"], "roles": ["X"], "a": {"b": {"c": ["Y"]}}})) == [
        "ROLE_ADMIN"
    ]


def test_a_provider_can_make_administrators(launched: RunningService, admin: Api, idp: IdentityProvider):
    register(admin, idp)
    person, chief = (Api(launched.url, idp.mint(roles=names)) for names in ([], ["ROLE_ADMIN"]))
    refused(person.get("/clients"), 403, "FORBIDDEN")
    assert done(chief.get("/clients")) == []
    assert len(done(person.get(PROVIDERS))) == 1
    assert person.get("/model/").status_code == 200


@pytest.mark.parametrize(
    ("claims", "accepted"),
    [
        ({"exp": None}, False),
        ({"exp": "9999999999"}, False),
        ({"exp": -20}, True),
        ({"exp": -40}, False),
        ({"nbf": +3600}, False),
        ({"iat": +3600}, False),
        ({"iat": None}, True),
        ({"iat": -3600}, False),
        ({"sub": None}, False),
        ({"sub": ""}, False),
        ({"sub": "x" * 255}, True),
        ({"sub": "x" * 256}, False),
        ({"sub": "a\nb"}, False),
        ({"sub": "a\x7fb"}, False),
        ({"sub": "ä:☃"}, True),
        ({"iss": None}, False),
        ({"iss": "https://other.test"}, False),
        ({"aud": None}, True),
    ],
)
def test_which_claims_are_accepted(
    launched: RunningService, admin: Api, idp: IdentityProvider, claims: dict[str, Any], accepted: bool
):
    register(admin, idp)
    claims = {name: time() + value if isinstance(value, int) else value for name, value in claims.items()}
    assert status_of(launched, idp.mint(**claims)) == (200 if accepted else 401)


def test_an_issuer_is_compared_to_the_letter(launched: RunningService, admin: Api, idp: IdentityProvider):
    register(admin, idp)
    assert status_of(launched, idp.mint(iss=f"{idp.issuer}/")) == 401


def test_issuers_are_those_of_the_registration(launched: RunningService, admin: Api, idp: IdentityProvider):
    register(admin, idp, issuers=[idp.issuer, "https://alias.test"])
    assert status_of(launched, idp.mint()) == 200
    assert status_of(launched, idp.mint(iss="https://alias.test")) == 200
    assert status_of(launched, idp.mint(iss="https://other.test")) == 401


def test_a_provider_that_publishes_another_issuer_than_was_registered_is_of_no_use(
    launched: RunningService, admin: Api, idp: IdentityProvider
):
    register(admin, idp, issuers=["https://expected.test"])
    assert status_of(launched, idp.mint()) == 401
    assert status_of(launched, idp.mint(iss="https://expected.test")) == 401


@pytest.mark.parametrize(
    ("audience", "accepted"),
    [("shop", True), (["x", "shop"], True), ("other", False), (["x"], False), (None, False), ([1, None], False)],
)
def test_audiences_are_a_list_of_those_that_count(
    launched: RunningService, admin: Api, idp: IdentityProvider, audience: Any, accepted: bool
):
    register(admin, idp, expectedAudiences=["shop", "desk"])
    assert status_of(launched, idp.mint(aud=audience)) == (200 if accepted else 401)


def test_a_token_is_bound_to_the_registration(launched: RunningService, admin: Api, idp: IdentityProvider):
    shown = register(admin, idp)
    created = time()
    admin.delete(f"{PROVIDERS}/{shown['id']}")
    register(administrator(launched, str(uuid4())), idp)
    assert status_of(launched, idp.mint(iat=int(created) - 40)) == 401
    assert status_of(launched, idp.mint(iat=int(created) - 5)) == 200


# Tenants that share a provider.


def test_the_audience_tells_tenants_with_the_same_provider_apart(launched: RunningService, idp: IdentityProvider):
    one, two = str(uuid4()), str(uuid4())
    register(administrator(launched, one), idp, expectedAudiences=["one"])
    register(administrator(launched, two), idp, expectedAudiences=["two"])
    assert account(launched, idp.mint(aud="one"))["legalEntity"]["id"] == one
    assert account(launched, idp.mint(aud=["three", "two"]))["legalEntity"]["id"] == two
    assert account(launched, idp.mint(aud=["two", "one"]))["legalEntity"]["id"] == one, "it was the first"
    for audience in (None, "three"):
        assert status_of(launched, idp.mint(aud=audience)) == 401


def refuse_taken(response: httpx.Response, field: str) -> None:
    """The registration of what another tenant has; which one that is, is not said."""
    problem = refused(response, 409, "OIDC_PROVIDER_DUPLICATE")
    assert problem["detail"] == f"OIDC_PROVIDER_DUPLICATE: {field}: issuer and audience are registered already"
    assert problem["properties"]["field"] == field


@pytest.mark.parametrize(
    ("mine", "theirs"),
    [
        ({"expectedAudiences": ["shop"]}, {"expectedAudiences": ["shop"]}),
        ({"expectedAudiences": ["shop", "desk"]}, {"expectedAudiences": ["x", "shop"]}),
        ({}, {"expectedAudiences": ["shop"]}),
        ({"expectedAudiences": ["shop"]}, {}),
        ({}, {}),
    ],
)
@pytest.mark.parametrize("is_inactive", [False, True])
def test_issuer_and_audience_belong_to_the_tenant_that_registered_them_first(
    launched: RunningService, admin: Api, idp: IdentityProvider, mine: Any, theirs: Any, is_inactive: bool
):
    shown = register(admin, idp, **mine)
    token, rival = idp.mint(), administrator(launched, str(uuid4()))
    before = account(launched, token)
    if is_inactive:
        done_empty(admin.post(f"{PROVIDERS}/{shown['id']}/invalidate"))
    refuse_taken(rival.post(PROVIDERS, {"wellKnownConfigUri": idp.uri} | theirs), "expectedAudiences")
    assert done(rival.get(PROVIDERS)) == []
    if is_inactive:
        done(admin.post(f"{PROVIDERS}/{shown['id']}/reactivate"))
    assert account(launched, token) == before
    done_empty(admin.delete(f"{PROVIDERS}/{shown['id']}"))
    register(rival, idp, **theirs)


@pytest.mark.parametrize("names_issuer", [True, False])
def test_a_document_that_names_the_issuer_and_keys_of_another_takes_nothing_over(
    launched: RunningService, idp: IdentityProvider, names_issuer: bool
):
    owner, thief = str(uuid4()), str(uuid4())
    register(administrator(launched, owner), idp, expectedAudiences=["shop"])
    with identity_provider() as hostile:
        hostile.issuer, hostile.keys = idp.issuer, idp.keys
        claim = {"expectedAudiences": ["shop"]} | ({"issuers": [idp.issuer]} if names_issuer else {})
        rival = administrator(launched, thief)
        refuse_taken(rival.post(PROVIDERS, {"wellKnownConfigUri": hostile.uri} | claim), "expectedAudiences")
        assert done(rival.get(PROVIDERS)) == []
        assert account(launched, idp.mint())["legalEntity"]["id"] == owner


def test_a_claim_that_the_background_records_first_is_refused_all_the_same(
    launched: RunningService, idp: IdentityProvider, monkeypatch: pytest.MonkeyPatch
):
    register(administrator(launched, str(uuid4())), idp, expectedAudiences=["shop"])
    identity = launched.parts.runtime.identity.identity
    assert identity is not None
    live, fetch_keys = identity.live_providers, identity.live_providers.fetch_keys

    async def fetch_then_look(provider_id: str) -> None:
        await fetch_keys(provider_id)
        await live.run_once()

    monkeypatch.setattr(live, "fetch_keys", fetch_then_look)
    with identity_provider() as hostile:
        hostile.issuer, hostile.keys = idp.issuer, idp.keys
        rival = administrator(launched, str(uuid4()))
        claim = {"wellKnownConfigUri": hostile.uri, "expectedAudiences": ["shop"]}
        refuse_taken(rival.post(PROVIDERS, claim), "expectedAudiences")
        assert done(rival.get(PROVIDERS)) == []


def test_who_shows_another_issuer_later_comes_after_those_who_have_it(launched: RunningService, idp: IdentityProvider):
    owner, thief = str(uuid4()), str(uuid4())
    with identity_provider() as hostile:
        rival = administrator(launched, thief)
        path = f"{PROVIDERS}/{register(rival, hostile)['id']}"
        register(administrator(launched, owner), idp, expectedAudiences=["shop"])
        hostile.issuer, hostile.keys = idp.issuer, idp.keys
        done(rival.request("PATCH", path, {}))
        assert account(launched, idp.mint())["legalEntity"]["id"] == owner
        eventually(lambda: "oidc_provider.shadow" in [act["action"] for act in read_trail(launched, thief)])
        assert account(launched, idp.mint())["legalEntity"]["id"] == owner


def test_a_change_takes_nothing_that_another_tenant_has(launched: RunningService, admin: Api, idp: IdentityProvider):
    register(admin, idp, expectedAudiences=["shop"])
    rival = administrator(launched, str(uuid4()))
    path = f"{PROVIDERS}/{register(rival, idp, expectedAudiences=['desk'])['id']}"
    for wanted in (["shop"], ["desk", "shop"], []):
        refuse_taken(rival.request("PATCH", path, {"expectedAudiences": wanted}), "expectedAudiences")
    token = idp.mint(aud="desk")
    assert status_of(launched, token) == 200
    for acts in (("PATCH", ""), ("POST", "/invalidate"), ("POST", "/reactivate"), ("DELETE", "")):
        rival.request(acts[0], f"{path}{acts[1]}", {} if acts[0] == "PATCH" else b"")
        assert status_of(launched, idp.mint()) == 200


def test_one_of_two_tenants_at_once_gets_issuer_and_audience(launched: RunningService, idp: IdentityProvider):
    tenants = [str(uuid4()) for _ in range(6)]
    barrier, statuses = threading.Barrier(6), dict[str, int]()

    def run(tenant: str) -> None:
        api = administrator(launched, tenant)
        barrier.wait()
        wanted = {"wellKnownConfigUri": idp.uri, "issuers": [idp.issuer], "expectedAudiences": ["shop"]}
        statuses[tenant] = api.post(PROVIDERS, wanted).status_code

    threads = [threading.Thread(target=run, args=(tenant,)) for tenant in tenants]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(statuses.values()) == [200] + [409] * 5
    winner = next(tenant for tenant, status in statuses.items() if status == 200)
    assert account(launched, idp.mint())["legalEntity"]["id"] == winner


def read_trail(launched: RunningService, tenant: str) -> list[dict[str, Any]]:
    found = done(Api(launched.root, administrator(launched, tenant).token).get("/ops/v1/audit"))
    acts: list[dict[str, Any]] = found["items"]
    return acts


def test_a_first_party_token_needs_no_provider(launched: RunningService, admin: Api, idp: IdentityProvider):
    register(admin, idp)
    asked = len(idp.asked)
    assert status_of(launched, a_token("acme", iss=idp.issuer)) == 401, "a known key, and another issuer"
    assert status_of(launched, a_token("acme")) == 200
    assert len(idp.asked) == asked


# Keys.


def test_a_key_that_is_rotated_in_counts_at_once_and_the_old_one_while_it_is_published(
    launched: RunningService, admin: Api, idp: IdentityProvider
):
    register(admin, idp)
    old = idp.mint()
    assert status_of(launched, old) == 200
    idp.keys = {"one": "idp-one", "two": "idp-two"}
    assert status_of(launched, idp.mint("two")) == 200
    assert status_of(launched, old) == 200
    idp.keys = {"three": "idp-three"}
    assert status_of(launched, idp.mint("three")) == 200
    assert status_of(launched, old) == 401, "it was found missing when the keys were fetched for another"


@pytest.mark.parametrize("by", ["patch", "reactivation"])
def test_a_revoked_key_is_dropped_at_once(launched: RunningService, admin: Api, idp: IdentityProvider, by: str):
    path = f"{PROVIDERS}/{register(admin, idp)['id']}"
    old = idp.mint()
    assert status_of(launched, old) == 200
    idp.keys = {"two": "idp-two"}
    if by == "patch":
        done(admin.request("PATCH", path, {}))
    else:
        admin.post(f"{path}/invalidate")
        done(admin.post(f"{path}/reactivate"))
    assert status_of(launched, old) == 401
    assert status_of(launched, idp.mint("two")) == 200


def test_a_provider_that_is_down_can_be_registered_and_counts_when_it_is_up(
    launched: RunningService, admin: Api, idp: IdentityProvider
):
    idp.fail()
    path = f"{PROVIDERS}/{register(admin, idp)['id']}"
    assert status_of(launched, idp.mint()) == 401
    idp.answers.clear()
    done(admin.request("PATCH", path, {}))
    assert status_of(launched, idp.mint()) == 200


def test_a_provider_that_was_down_is_asked_again(launched: RunningService, admin: Api, idp: IdentityProvider):
    idp.fail()
    register(admin, idp)
    idp.answers.clear()
    eventually(lambda: status_of(launched, idp.mint()) == 200)


def test_keys_are_used_while_their_provider_fails_and_reloading_keeps_them(
    launched: RunningService, admin: Api, idp: IdentityProvider
):
    register(admin, idp)
    idp.fail()
    done_empty(admin.post(f"{PROVIDERS}/reload"))
    asked = len(idp.asked)
    eventually(lambda: len(idp.asked) > asked or asked > 2)
    assert status_of(launched, idp.mint()) == 200


def test_reloading_fetches_again(launched: RunningService, admin: Api, idp: IdentityProvider):
    register(admin, idp)
    old = idp.mint()
    idp.keys = {"two": "idp-two"}
    done_empty(admin.post(f"{PROVIDERS}/reload"))
    eventually(lambda: status_of(launched, old) == 401)


def test_known_keys_cost_no_request(launched: RunningService, admin: Api, idp: IdentityProvider):
    register(admin, idp)
    asked = len(idp.asked)
    assert [status_of(launched, idp.mint(sub=f"u{number}")) for number in range(20)] == [200] * 20
    assert len(idp.asked) == asked


@pytest.mark.parametrize(
    "document",
    [
        b"no json",
        b"[]",
        b"{}",
        b'{"issuer": "", "jwks_uri": "x"}',
        b'{"issuer": 1, "jwks_uri": "x"}',
        b'{"issuer": "a\\u0000b", "jwks_uri": "https://login.example.org/keys"}',
        b"[" * 200_000,
        b'{"issuer": "x"' + b" " * 300_000 + b"}",
    ],
)
def test_what_is_no_discovery_document_is_of_no_use(
    launched: RunningService, admin: Api, idp: IdentityProvider, document: bytes
):
    idp.answers[DISCOVERY] = lambda: (200, {"Content-Type": "application/json"}, document)
    register(admin, idp)
    assert status_of(launched, idp.mint()) == 401


@pytest.mark.parametrize("status", [301, 302, 307])
@pytest.mark.parametrize("path", [DISCOVERY, KEYS])
def test_redirects_are_not_followed(
    launched: RunningService, admin: Api, idp: IdentityProvider, path: str, status: int
):
    with identity_provider() as other:
        other.issuer = idp.issuer
        idp.answers[path] = lambda: (status, {"Location": f"{other.root}{path}"}, b"")
        register(admin, idp)
        assert status_of(launched, idp.mint()) == 401
        assert other.asked == []


def test_of_a_key_set_what_can_verify_counts(launched: RunningService, admin: Api, idp: IdentityProvider):
    keys = [
        {"kty": "EC", "kid": "ec", "crv": "P-256", "x": "x", "y": "y"},
        {"kty": "oct", "kid": "mac", "k": "c2VjcmV0"},
        {"kty": "RSA", "kid": "broken", "n": "!", "e": "AQAB"},
        {"kty": "RSA", "kid": "even", "n": public_jwk("x", "idp-one")["n"], "e": "AA"},
        {"kty": "RSA", "n": "x", "e": "AQAB"},
        "nonsense",
        None,
        public_jwk("one", "idp-one"),
        public_jwk("one", "evil"),
    ]
    idp.answers[KEYS] = lambda: reply({"keys": keys}, "application/jwk-set+json; charset=utf-8")
    register(admin, idp)
    assert status_of(launched, idp.mint()) == 200
    assert [status_of(launched, idp.mint(kid)) for kid in ("ec", "mac", "broken", "even")] == [401] * 4
    assert status_of(launched, idp.mint(key="evil")) == 401


@pytest.mark.parametrize(
    "answer",
    [
        (200, {"Content-Type": "text/html"}, b'{"keys": []}'),
        (200, {"Content-Type": "application/json"}, b'{"keys": {}}'),
        (404, {"Content-Type": "application/json"}, b'{"keys": []}'),
        (200, {"Content-Type": "application/json"}, b"[" * 100_000),
    ],
)
def test_what_is_no_key_set_is_of_no_use(
    launched: RunningService, admin: Api, idp: IdentityProvider, answer: tuple[int, dict[str, str], bytes]
):
    idp.answers[KEYS] = lambda: answer
    register(admin, idp)
    assert status_of(launched, idp.mint()) == 401


# gRPC.


async def ask_by_grpc(service: RunningService, token: str) -> grpc.StatusCode:
    """The status of a call whose message says nothing."""
    async with grpc.aio.insecure_channel(service.grpc) as channel:
        call = channel.unary_unary(f"/{SERVICE_NAME}/entityManage", CloudEvent.SerializeToString, CloudEvent.FromString)
        try:
            await call(CloudEvent(), metadata=(("authorization", f"Bearer {token}"),), timeout=PATIENCE_S)
        except grpc.aio.AioRpcError as error:
            return error.code()
        return grpc.StatusCode.OK


async def test_tokens_count_over_grpc_also_when_their_key_has_to_be_looked_for(
    launched: RunningService, admin: Api, idp: IdentityProvider
):
    register(admin, idp)
    assert await ask_by_grpc(launched, idp.mint()) is not grpc.StatusCode.UNAUTHENTICATED
    idp.keys["two"] = "idp-two"
    assert await ask_by_grpc(launched, idp.mint("two")) is not grpc.StatusCode.UNAUTHENTICATED
    assert await ask_by_grpc(launched, idp.mint("three")) is grpc.StatusCode.UNAUTHENTICATED
    assert await ask_by_grpc(launched, idp.mint(key="evil")) is grpc.StatusCode.UNAUTHENTICATED


async def test_a_call_with_an_unknown_key_ends_before_its_message_has_come(launched: RunningService):
    """Else strangers could have messages kept by the thousand."""
    with identity_provider() as nobody:
        token = nobody.mint("unknown")
    withheld = asyncio.Event()

    async def messages() -> AsyncIterator[CloudEvent]:
        await withheld.wait()
        yield CloudEvent()

    async with grpc.aio.insecure_channel(launched.grpc) as channel:
        path = f"/{SERVICE_NAME}/entityManage"
        call = channel.stream_unary(path, CloudEvent.SerializeToString, CloudEvent.FromString)
        with pytest.raises(grpc.aio.AioRpcError) as ended:
            await call(messages(), metadata=(("authorization", f"Bearer {token}"),), timeout=PATIENCE_S)
    withheld.set()
    assert ended.value.code() is grpc.StatusCode.UNAUTHENTICATED
