"""Machine clients (docs/reference/authentication.md#clients)."""

import re
from contextlib import nullcontext

import jwt
import pytest

from statewright.settings import Secret
from tests.builders import Json
from tests.database import Template
from tests.integration.identity.conftest import FEATURES, administrator, ask
from tests.service import CLIENT_ID, CLIENT_SECRET, Api, RunningService, done, hosted, refused


def claims(response: Json) -> Json:
    return jwt.decode(done(response)["access_token"], options={"verify_signature": False})


def test_a_new_client_gets_tokens_of_its_tenant(launched: RunningService, admin: Api, tenant: str) -> None:
    response = admin.post("/clients")
    assert response.headers["cache-control"] == "no-store"
    issued = done(response)
    assert set(issued) == {"client_id", "client_secret", "client_secret_expires_at", "grant_type", "roles"}
    assert re.fullmatch("[0-9A-V]{16}", issued["client_id"])
    assert re.fullmatch("[0-9a-f]{64}", issued["client_secret"])
    assert (issued["grant_type"], issued["client_secret_expires_at"]) == ("client_credentials", 0)
    assert issued["roles"] == ["ROLE_M2M"]
    granted = claims(ask(launched, issued["client_id"], issued["client_secret"]))
    assert (granted["caas_org_id"], granted["sub"], granted["caas_user_id"]) == (tenant, *[issued["client_id"]] * 2)
    assert granted["scopes"] == ["ROLE_M2M"]


def test_a_client_is_listed_without_its_secret(admin: Api) -> None:
    assert done(admin.get("/clients")) == []
    issued = done(admin.post("/clients"))
    response = admin.get("/clients")
    [listed] = done(response)
    assert set(listed) == {"clientId", "creationDate", "lastUpdateDate", "roles"}
    assert (listed["clientId"], listed["roles"]) == (issued["client_id"], ["ROLE_M2M"])
    assert listed["creationDate"] == listed["lastUpdateDate"]
    assert issued["client_secret"] not in response.text


def test_an_administrator_may_be_made_where_a_setting_allows_it(
    launched: RunningService, service: RunningService, admin: Api, tenant: str
) -> None:
    issued = done(admin.post("/clients?withAdminRole=true"))
    assert issued["roles"] == ["ROLE_M2M", "ROLE_ADMIN"]
    token = done(ask(launched, issued["client_id"], issued["client_secret"]))["access_token"]
    assert len(done(Api(launched.url, token).get("/clients"))) == 1
    elsewhere = administrator(service, tenant)
    problem = refused(elsewhere.post("/clients?withAdminRole=true"), 404, "FEATURE_DISABLED")
    told = "M2M admin-role grants are disabled; STATEWRIGHT_IAM_M2M_ADMIN_ROLE_ENABLED=true permits it"
    assert problem["detail"] == f"FEATURE_DISABLED: {told}"
    assert done(elsewhere.get("/clients")) == []


def test_a_client_may_be_an_operator(launched: RunningService, admin: Api) -> None:
    assert done(admin.post("/clients?withOperatorRole=false"))["roles"] == ["ROLE_M2M"]
    issued = done(admin.post("/clients?withOperatorRole=true"))
    assert issued["roles"] == ["ROLE_M2M", "ROLE_OPERATOR"]
    token = done(ask(launched, issued["client_id"], issued["client_secret"]))["access_token"]
    assert done(Api(launched.root, token).get("/ops/v1/audit"))["items"]
    refused(Api(launched.url, token).get("/clients"), 403, "FORBIDDEN")


def test_a_client_may_be_one_that_changes_nothing(launched: RunningService, admin: Api) -> None:
    issued = done(admin.post("/clients?withReadOnlyRole=true&withOperatorRole=true"))
    assert issued["roles"] == ["ROLE_M2M", "ROLE_OPERATOR", "ROLE_READ_ONLY"]
    token = done(ask(launched, issued["client_id"], issued["client_secret"]))["access_token"]
    client = Api(launched.url, token)
    done(client.get("/model/"))
    refused(client.post("/model/import/JSON/SAMPLE_DATA/order/1", {"total": 1}), 403, "READ_ONLY")


def test_another_secret_takes_the_place_of_the_old_one_at_once(launched: RunningService, admin: Api) -> None:
    issued = done(admin.post("/clients"))
    client = issued["client_id"]
    assert ask(launched, client, issued["client_secret"]).status_code == 200
    renewed = done(admin.put(f"/clients/{client}/secret"))
    assert set(renewed) == set(issued)
    assert renewed["client_id"] == client
    assert ask(launched, client, issued["client_secret"]).status_code == 401
    assert ask(launched, client, renewed["client_secret"]).status_code == 200
    [listed] = done(admin.get("/clients"))
    assert listed["creationDate"] < listed["lastUpdateDate"]


def test_a_deleted_client_gets_no_token_and_those_it_has_live_on(launched: RunningService, admin: Api) -> None:
    issued = done(admin.post("/clients"))
    client = issued["client_id"]
    token = done(ask(launched, client, issued["client_secret"]))["access_token"]
    assert done(admin.delete(f"/clients/{client}")) == {
        "message": "M2M client deleted successfully",
        "clientId": client,
    }
    assert ask(launched, client, issued["client_secret"]).status_code == 401
    done(Api(launched.url, token).get("/account"))
    refused(admin.delete(f"/clients/{client}"), 404, "M2M_CLIENT_NOT_FOUND")


@pytest.mark.parametrize(("method", "suffix"), [("DELETE", ""), ("PUT", "/secret")])
def test_a_client_of_another_tenant_is_none(launched: RunningService, admin: Api, method: str, suffix: str) -> None:
    other = administrator(launched, "globex")
    issued = done(other.post("/clients"))
    foreign = admin.request(method, f"/clients/{issued['client_id']}{suffix}")
    unknown = admin.request(method, f"/clients/{'0' * 16}{suffix}")
    refused(foreign, 404, "M2M_CLIENT_NOT_FOUND")
    assert foreign.text.replace(issued["client_id"], "0" * 16) == unknown.text
    assert issued["client_id"] not in admin.get("/clients").text
    assert ask(launched, issued["client_id"], issued["client_secret"]).status_code == 200


@pytest.mark.parametrize("client", ["ops.client-1", "a" * 101, "%20"])
def test_an_id_with_other_characters_is_refused(admin: Api, client: str) -> None:
    for response in (admin.delete(f"/clients/{client}"), admin.put(f"/clients/{client}/secret")):
        assert refused(response, 400, "BAD_REQUEST")["detail"] == "BAD_REQUEST: invalid clientId"


CALLS = [("GET", "/clients"), ("POST", "/clients"), ("DELETE", "/clients/x.y"), ("PUT", "/clients/x.y/secret")]


@pytest.mark.parametrize(("method", "path"), CALLS)
def test_only_administrators_may(launched: RunningService, tenant: str, method: str, path: str) -> None:
    refused(launched.anonymous().request(method, path), 401, "UNAUTHORIZED")
    plain = launched.api(tenant)
    assert (
        refused(plain.request(method, path), 403, "FORBIDDEN")["detail"]
        == "FORBIDDEN: forbidden: admin role required, ROLE_ADMIN"
    )


def test_a_parameter_that_does_not_bind_is_refused_before_roles_are_looked_at(
    launched: RunningService, tenant: str
) -> None:
    problem = refused(launched.api(tenant).post("/clients?withAdminRole=maybe"), 400, "BAD_REQUEST")
    assert problem["properties"]["parameter"] == "withAdminRole"


def test_the_client_of_the_settings_is_listed_in_its_tenant(launched: RunningService) -> None:
    boot = administrator(launched, "boot-tenant")
    assert [client["clientId"] for client in done(boot.get("/clients"))] == [CLIENT_ID]
    assert ask(launched, CLIENT_ID, CLIENT_SECRET).status_code == 200


def test_clients_survive_their_service_and_those_of_the_settings_are_what_these_say(
    database_template: Template,
) -> None:
    with hosted(database_template.clone(), **FEATURES) as first:
        issued = done(administrator(first, "acme").post("/clients"))
        before = administrator(first, "boot-tenant").get("/clients").text
        with hosted(nullcontext(first.database), **FEATURES) as second:
            assert ask(second, issued["client_id"], issued["client_secret"]).status_code == 200
            boot = administrator(second, "boot-tenant")
            assert boot.get("/clients").text == before
            rotated = done(boot.put(f"/clients/{CLIENT_ID}/secret"))
            assert [ask(node, CLIENT_ID, CLIENT_SECRET).status_code for node in (first, second)] == [401, 401]
            assert ask(first, CLIENT_ID, rotated["client_secret"]).status_code == 200
        with hosted(nullcontext(first.database), **FEATURES) as third:
            assert ask(third, CLIENT_ID, CLIENT_SECRET).status_code == 200
        without = FEATURES | {"bootstrap_client_id": "", "bootstrap_client_secret": None}
        with hosted(nullcontext(first.database), **without) as fourth:
            assert ask(fourth, CLIENT_ID, CLIENT_SECRET).status_code == 401
            assert done(administrator(fourth, "boot-tenant").get("/clients")) == []


def test_a_start_does_not_take_over_a_client_of_the_api(launched: RunningService, admin: Api) -> None:
    issued = done(admin.post("/clients"))
    settings = FEATURES | {"bootstrap_client_id": issued["client_id"], "bootstrap_client_secret": Secret("mine")}
    with (
        pytest.raises(Exception, match="created over the API"),
        hosted(nullcontext(launched.database), **settings),
    ):
        pass
    assert ask(launched, issued["client_id"], issued["client_secret"]).status_code == 200
