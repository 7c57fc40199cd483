"""What administrators do to clients, keys and trusted keys is in the trail of operators
(docs/reference/operations.md#audit).
"""

from uuid import uuid4

from tests.integration.identity.test_trusted_keys import register
from tests.service import Api, RunningService, done

PAIRS, TRUSTED = "/oauth/keys/keypair", "/oauth/keys/trusted"
LATER = {"validTo": "2999-01-01T00:00:00Z"}


def test_every_act_is_recorded_with_who_did_it_and_without_secrets(launched: RunningService, admin: Api) -> None:
    client = done(admin.post("/clients"))
    secret = done(admin.put(f"/clients/{client['client_id']}/secret"))["client_secret"]
    admin.delete(f"/clients/{client['client_id']}")
    pair = done(admin.post(PAIRS, {"algorithm": "RS256", "audience": "human"}))["keyId"]
    admin.post(f"{PAIRS}/{pair}/invalidate")
    done(admin.post(f"{PAIRS}/{pair}/reactivate", LATER))
    admin.delete(f"{PAIRS}/{pair}")
    kid = f"signer.{uuid4().hex[:8]}"
    register(admin, kid)
    admin.post(f"{TRUSTED}/{kid}/invalidate")
    done(admin.post(f"{TRUSTED}/{kid}/reactivate", LATER))
    admin.delete(f"{TRUSTED}/{kid}")
    trail = Api(f"{launched.root}/ops/v1", admin.token).get("/audit")
    items = list(reversed(done(trail)["items"]))
    assert [(item["action"], item["target"]["id"]) for item in items] == [
        ("client.create", client["client_id"]),
        ("client.rotate_secret", client["client_id"]),
        ("client.delete", client["client_id"]),
        ("key_pair.issue", pair),
        ("key_pair.invalidate", pair),
        ("key_pair.reactivate", pair),
        ("key_pair.delete", pair),
        ("trusted_key.register", kid),
        ("trusted_key.invalidate", kid),
        ("trusted_key.reactivate", kid),
        ("trusted_key.delete", kid),
    ]
    assert {item["actor"]["id"] for item in items} == {"root"}
    assert [item["details"] for item in items if item["details"]] == [
        {"roles": ["ROLE_M2M"]},
        {"audience": "human", "invalidateCurrent": False},
        {"gracePeriodSec": 0},
        {"audience": "client", "invalidatePrevious": False},
    ]
    assert secret not in trail.text
    assert client["client_secret"] not in trail.text


def test_what_was_refused_is_no_act(launched: RunningService, admin: Api) -> None:
    for method, path in (
        ("DELETE", "/clients/UNKNOWN"),
        ("DELETE", f"{PAIRS}/unknown"),
        ("DELETE", f"{TRUSTED}/unknown"),
    ):
        assert admin.request(method, path).status_code == 404
    assert done(Api(f"{launched.root}/ops/v1", admin.token).get("/audit"))["items"] == []
