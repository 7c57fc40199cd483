"""Key pairs of the service (docs/reference/authentication.md#keys)."""

import asyncio
import base64
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import jwt
import pytest
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, load_der_public_key

from statewright.storage.auth.keys import MAX_KEY_PAIRS
from tests.builders import Json
from tests.database import Template, connected
from tests.integration.identity.conftest import FEATURES, administrator, ask
from tests.service import (
    CLIENT_ID,
    CLIENT_SECRET,
    Api,
    RunningService,
    done,
    eventually,
    hosted,
    refused,
    signing_key,
    signing_key_id,
)

PAIRS = "/oauth/keys/keypair"
PLATFORM = "platform"
SETTINGS = FEATURES | {"jwt_bootstrap_audience": "human", "iam_platform_tenant": PLATFORM}
"""The configured key is for external tools, as which these tests mint the tokens of their callers."""


@pytest.fixture(scope="module")
def keyed(database_template: Template) -> Iterator[RunningService]:
    """A service whose keys come and go."""
    with hosted(database_template.clone(), **SETTINGS) as running:
        yield running


@pytest.fixture
def keeper(keyed: RunningService) -> Api:
    return administrator(keyed, PLATFORM)


def issue(api: Api, audience: str = "client", **wanted: Json) -> Json:
    return done(api.post(PAIRS, {"algorithm": "RS256", "audience": audience} | wanted))


def a_grant(service: RunningService) -> str:
    return str(done(ask(service, CLIENT_ID, CLIENT_SECRET))["access_token"])


def kid_of(token: str) -> str:
    return str(jwt.get_unverified_header(token)["kid"])


def published(service: RunningService) -> set[str]:
    return {key["kid"] for key in done(service.anonymous().get("/.well-known/jwks.json"))["keys"]}


def status(service: RunningService, token: str) -> int:
    return Api(service.url, token).get("/account").status_code


def in_hours(hours: float) -> str:
    return (datetime.now(UTC) + timedelta(hours=hours)).isoformat()


def test_a_new_pair_signs_at_once_and_shows_no_private_key(keyed: RunningService, keeper: Api) -> None:
    pair = issue(keeper)
    assert set(pair) == {"active", "algorithm", "keyId", "publicKey", "validFrom", "validTo"}
    assert (pair["active"], pair["algorithm"], len(pair["keyId"])) == (True, "RS256", 32)
    assert done(keeper.get(f"{PAIRS}/current?audience=client")) == pair
    token = a_grant(keyed)
    assert kid_of(token) == pair["keyId"]
    public = load_der_public_key(base64.b64decode(pair["publicKey"]))
    jwt.decode(token, public, algorithms=["RS256"])  # type: ignore[arg-type]
    assert status(keyed, token) == 200
    assert pair["keyId"] in published(keyed)
    begins, ends = (datetime.fromisoformat(pair[name]) for name in ("validFrom", "validTo"))
    assert ends - begins == timedelta(days=365)


def test_several_pairs_stay_active_and_the_newest_signs(keyed: RunningService, keeper: Api) -> None:
    issue(keeper)
    old = a_grant(keyed)
    newest = issue(keeper)
    issue(keeper, validFrom=in_hours(1), validTo=in_hours(2))
    new = a_grant(keyed)
    assert kid_of(old) != kid_of(new) == newest["keyId"]
    assert (status(keyed, old), status(keyed, new)) == (200, 200)


def test_a_rotation_ends_the_others_of_its_audience_when_the_grace_is_over(keyed: RunningService, keeper: Api) -> None:
    issue(keeper)
    old = a_grant(keyed)
    new = issue(keeper, invalidateCurrent=True, invalidateGracePeriodSec=600)
    assert kid_of(a_grant(keyed)) == new["keyId"]
    assert status(keyed, old) == 200
    assert kid_of(old) in published(keyed)
    last = issue(keeper, invalidateCurrent=True)
    assert status(keyed, a_grant(keyed)) == 200
    assert {kid_of(old), new["keyId"]} & published(keyed) == {kid_of(old)}, "its grace is its own"
    assert done(keeper.get(f"{PAIRS}/current?audience=client"))["keyId"] == last["keyId"]
    assert done(keeper.get(f"{PAIRS}/current?audience=human"))["keyId"] == signing_key_id()


def test_tokens_of_an_invalidated_pair_end_with_its_grace(keyed: RunningService, keeper: Api) -> None:
    kid = issue(keeper)["keyId"]
    token = a_grant(keyed)
    response = keeper.post(f"{PAIRS}/{kid}/invalidate", {"gracePeriodSec": 1})
    assert (response.status_code, response.content, response.headers.get("content-type")) == (200, b"", None)
    eventually(lambda: status(keyed, token) == 401)
    assert kid not in published(keyed)
    kept = keeper.post(f"{PAIRS}/{kid}/reactivate", {"validTo": in_hours(1)})
    assert (done(kept)["active"], done(kept)["keyId"]) == (True, kid)
    assert status(keyed, token) == 200
    done_at_once = keeper.post(f"{PAIRS}/{kid}/invalidate")
    assert done_at_once.status_code == 200
    assert status(keyed, token) == 401
    assert kid not in published(keyed)


def test_a_deleted_pair_is_gone_at_once(keyed: RunningService, keeper: Api) -> None:
    kid = issue(keeper)["keyId"]
    token = a_grant(keyed)
    response = keeper.delete(f"{PAIRS}/{kid}")
    assert (response.status_code, response.content) == (200, b"")
    assert status(keyed, token) == 401
    for gone in (
        keeper.delete(f"{PAIRS}/{kid}"),
        keeper.post(f"{PAIRS}/{kid}/invalidate"),
        keeper.post(f"{PAIRS}/{kid}/reactivate", {"validTo": in_hours(1)}),
        keeper.delete(f"{PAIRS}/a%00b"),
        keeper.post(f"{PAIRS}/a%00b/invalidate"),
        keeper.post(f"{PAIRS}/a%00b/reactivate", {"validTo": in_hours(1)}),
    ):
        assert refused(gone, 404, "KEYPAIR_NOT_FOUND")["detail"] == "KEYPAIR_NOT_FOUND: key pair not found"


def test_without_a_key_that_may_sign_no_token_is_granted(keyed: RunningService, keeper: Api) -> None:
    last = issue(keeper, invalidateCurrent=True)
    keeper.delete(f"{PAIRS}/{last['keyId']}")
    refusal = ask(keyed, CLIENT_ID, CLIENT_SECRET)
    assert (refusal.status_code, refusal.json()["error"]) == (500, "server_error")
    missing = refused(keeper.get(f"{PAIRS}/current?audience=client"), 404, "KEYPAIR_NOT_FOUND")
    assert missing["detail"] == "KEYPAIR_NOT_FOUND: no active key pair for audience"


GOOD = {"algorithm": "RS256", "audience": "client"}


@pytest.mark.parametrize(
    ("body", "code", "message"),
    [
        ("", "BAD_REQUEST", "invalid request body"),
        ("[]", "BAD_REQUEST", "invalid request body"),
        (GOOD | {"validTo": "soon"}, "BAD_REQUEST", "invalid request body"),
        (GOOD | {"invalidateGracePeriodSec": "1"}, "BAD_REQUEST", "invalid request body"),
        ('{"algorithm": ' + "[" * 100_000, "BAD_REQUEST", "invalid request body"),
        ("x" * (1 << 20) + "x", "BAD_REQUEST", "invalid request body"),
        ({"audience": "nobody"}, "UNSUPPORTED_ALGORITHM", "only RS256 supported in this version"),
        (GOOD | {"algorithm": "ES256"}, "UNSUPPORTED_ALGORITHM", "only RS256 supported in this version"),
        (GOOD | {"audience": "nobody", "validTo": "2000-01-01T00:00:00Z"}, "BAD_REQUEST", "invalid audience"),
        (GOOD | {"validTo": "2000-01-01T00:00:00Z"}, "BAD_REQUEST", "validTo must be > validFrom"),
        (GOOD | {"invalidateGracePeriodSec": -1}, "BAD_REQUEST", "gracePeriodSec must be >= 0"),
        (
            GOOD | {"invalidateGracePeriodSec": 31_622_401},
            "BAD_REQUEST",
            "gracePeriodSec must be <= 31622400 (366 days = 1 leap year)",
        ),
    ],
)
def test_a_malformed_request_is_refused_by_its_first_fault(keeper: Api, body: Json, code: str, message: str) -> None:
    assert refused(keeper.post(PAIRS, body), 400, code)["detail"] == f"{code}: {message}"


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({}, "validTo required"),
        ({"validTo": "2000-01-01T00:00:00Z"}, "validTo must be in the future"),
        ({"validTo": "2999-01-01T00:00:00Z", "validFrom": "2999-01-01T00:00:00Z"}, "validTo must be > validFrom"),
    ],
)
def test_a_window_has_to_end_in_the_future_and_after_it_begins(keeper: Api, body: Json, message: str) -> None:
    problem = refused(keeper.post(f"{PAIRS}/nothing/reactivate", body), 400, "BAD_REQUEST")
    assert problem["detail"] == f"BAD_REQUEST: {message}"


def test_the_audience_of_the_current_pair_has_to_be_told(keeper: Api, keyed: RunningService, tenant: str) -> None:
    missing = refused(keyed.api(tenant).get(f"{PAIRS}/current"), 400, "BAD_REQUEST")
    assert missing["detail"] == "BAD_REQUEST: missing required parameter 'audience'"
    assert missing["properties"]["parameter"] == "audience"
    unknown = refused(keeper.get(f"{PAIRS}/current?audience=nobody"), 400, "BAD_REQUEST")
    assert unknown["detail"] == "BAD_REQUEST: invalid audience"


CALLS = [
    ("POST", PAIRS),
    ("GET", f"{PAIRS}/current?audience=client"),
    ("DELETE", f"{PAIRS}/x"),
    ("POST", f"{PAIRS}/x/invalidate"),
    ("POST", f"{PAIRS}/x/reactivate"),
]


@pytest.mark.parametrize(("method", "path"), CALLS)
def test_only_administrators_may(keyed: RunningService, tenant: str, method: str, path: str) -> None:
    refused(keyed.anonymous().request(method, path), 401, "UNAUTHORIZED")
    refused(keyed.api(tenant).request(method, path, "no json"), 403, "FORBIDDEN")


def test_the_published_keys_may_be_kept_for_a_minute(keyed: RunningService) -> None:
    path = "/.well-known/jwks.json"
    response = keyed.anonymous().get(path)
    assert response.headers["cache-control"] == "public, max-age=60"
    again = keyed.anonymous().get(path, If_None_Match=response.headers["etag"])
    assert (again.status_code, again.content) == (304, b"")


async def test_there_is_a_most_of_key_pairs(keyed: RunningService) -> None:
    fill = """
        INSERT INTO signing_key (kid, audience, public_key, private_key, encrypted_by, active, valid_from, valid_to)
        SELECT 'filler-' || n, 'human', public_key, '\\x00', 'nothing', false, 0, 0
          FROM generate_series(1, $2::int) AS n, signing_key WHERE kid = $1
    """
    async with connected(keyed.database) as connection:
        await connection.execute(fill, signing_key_id(), MAX_KEY_PAIRS)
        try:
            refusal = await asyncio.to_thread(administrator(keyed, PLATFORM).post, PAIRS, GOOD)
        finally:
            await connection.execute("DELETE FROM signing_key WHERE kid LIKE 'filler-%'")
    assert "the most there may be" in refused(refusal, 400, "BAD_REQUEST")["detail"]


async def stored_private_keys(database: str) -> list[tuple[bytes, str]]:
    async with connected(database) as connection:
        rows = await connection.fetch("SELECT private_key, encrypted_by FROM signing_key WHERE private_key IS NOT NULL")
    return [(row["private_key"], row["encrypted_by"]) for row in rows]


def test_what_is_stored_is_no_private_key(keyed: RunningService, keeper: Api) -> None:
    issue(keeper)
    for stored, _ in asyncio.run(stored_private_keys(keyed.database)):
        assert b"BEGIN" not in stored
        assert not base64.urlsafe_b64decode(stored).startswith(b"\x30")  # DER


def test_the_private_key_of_the_settings_is_not_stored(keyed: RunningService) -> None:
    der = signing_key().private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption())
    assert all(der not in stored for stored, _ in asyncio.run(stored_private_keys(keyed.database)))


def test_what_all_tenants_have_in_common_may_be_left_to_one_of_them(
    keyed: RunningService, keeper: Api, tenant: str
) -> None:
    other = administrator(keyed, tenant)
    changes = [("/admin/log-level", {"level": "error"}), ("/admin/trace-sampler", {"sampler": "always"}), (PAIRS, GOOD)]
    for path, body in changes:
        assert "STATEWRIGHT_IAM_PLATFORM_TENANT" in refused(other.post(path, body), 403, "FORBIDDEN")["detail"]
        done(keeper.post(path, body))
    done(other.get("/admin/log-level"))
    done(other.post("/clients"))
