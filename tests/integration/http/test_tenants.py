"""What belongs to another tenant is as if it were nowhere (docs/reference/entities.md#tenants,
docs/reference/authentication.md#tenancy).
"""

import random

import pytest

from tests.builders import SAMPLE, Json, a_workflow, manual
from tests.service import Api, RunningService, done, refused

NOWHERE = "00000000-0000-1000-8000-000000000000"
NO_TRANSACTION = "00000000-0000-1000-8000-00000000000a"


@pytest.fixture
def stranger(service: RunningService, tenant: str) -> Api:
    """A caller of another tenant, who has the same model."""
    other = service.api(f"not-{tenant}")
    other.a_model()
    return other


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("GET", "/entity/{id}", b""),
        ("GET", "/entity/{id}?pointInTime=2999-01-01T00:00:00Z", b""),
        ("GET", "/entity/{id}?transactionId={transaction}", b""),
        ("GET", "/entity/{id}/changes", b""),
        ("GET", "/entity/{id}/changes?pointInTime=2999-01-01T00:00:00Z", b""),
        ("GET", "/entity/{id}/transitions", b""),
        ("GET", "/entity/{id}/transitions?transactionId={transaction}", b""),
        ("GET", "/platform-api/entity/fetch/transitions?entityClass=A.1&entityId={id}", b""),
        ("PUT", "/entity/JSON/{id}", SAMPLE),
        ("PUT", "/entity/JSON/{id}/UPDATE", SAMPLE),
        ("PUT", "/entity/JSON/{id}/NO_SUCH_TRANSITION", SAMPLE),
        ("DELETE", "/entity/{id}", b""),
        ("GET", "/audit/entity/{id}", b""),
        ("GET", "/audit/entity/{id}/workflow/{transaction}/finished", b""),
    ],
)
def test_a_foreign_id_is_answered_byte_by_byte_like_an_unknown_one(
    api: Api, stranger: Api, method: str, path: str, body: Json
) -> None:
    api.a_model()
    saved = api.create()
    foreign = stranger.request(method, path.format(id=saved.id, transaction=saved.transaction), body)
    unknown = stranger.request(method, path.format(id=NOWHERE, transaction=NO_TRANSACTION), body)
    assert foreign.status_code == unknown.status_code == 404
    # The path is the only thing in a body that may differ, and the path is the client's own.
    expected = unknown.text.replace(NOWHERE, saved.id).replace(NO_TRANSACTION, saved.transaction)
    assert foreign.text == expected
    own = {"date", "x-request-id"}
    assert {k: v for k, v in foreign.headers.items() if k not in own} == {
        k: v for k, v in unknown.headers.items() if k not in own
    }
    assert api.read(saved.id)["data"] == SAMPLE


def test_what_two_tenants_call_by_the_same_name_is_not_the_same(api: Api, stranger: Api) -> None:
    api.import_model(sample={"mine": 1})
    assert done(stranger.get("/model/export/SIMPLE_VIEW/prize/1"))["currentState"] == "LOCKED"
    assert done(api.get("/model/export/SIMPLE_VIEW/prize/1")) == {
        "currentState": "UNLOCKED",
        "model": {"$": {".mine": "INTEGER"}},
    }
    api.import_workflows(a_workflow(Mine=[]))
    refused(stranger.get("/model/prize/1/workflow/export"), 404, "WORKFLOW_NOT_FOUND")
    assert stranger.state(stranger.create().id) == "CREATED"


def test_lists_show_the_tenants_own(api: Api, stranger: Api) -> None:
    api.a_model()
    mine = api.create().id
    stranger.create()
    assert [envelope["meta"]["id"] for envelope in done(api.get("/entity/prize/1"))] == [mine]


def test_entities_of_one_tenant_do_not_keep_the_model_of_another_locked(api: Api, stranger: Api) -> None:
    api.a_model()
    api.create()
    done(stranger.put("/model/prize/1/unlock"))
    done(stranger.delete("/model/prize/1"))
    assert len(done(api.get("/model/"))) == 1


def test_users_of_one_tenant_share_everything(service: RunningService, api: Api, tenant: str) -> None:
    api.a_model(a_workflow(New=[manual("GO", to="New")]))
    entity = api.create().id
    service.api(tenant, "bob", user_roles=[]).update(entity, fire="GO")
    assert [change["user"] for change in done(api.get(f"/entity/{entity}/changes"))] == ["bob", "alice"]


@pytest.mark.parametrize("tenant", ["Ünïcödé 漢字", "with/slash", "a'b\"c;--", "x" * 300, "*", " "])
def test_any_text_names_a_tenant(service: RunningService, tenant: str) -> None:
    somebody = service.api(tenant)
    somebody.a_model(model="odd/1")
    assert somebody.read(somebody.create(model="odd/1").id)["data"] == SAMPLE
    somebody.import_workflows(a_workflow(A=[]), model="odd/1")
    assert somebody.state(somebody.create(model="odd/1").id) == "A"


@pytest.mark.parametrize(
    "tenant",
    [
        "nul\x00nul",
        "\ud800",
    ],
)
def test_a_tenant_that_cannot_be_stored_is_no_valid_claim(service: RunningService, tenant: str) -> None:
    refused(service.api(tenant).get("/model/"), 401, "UNAUTHORIZED")


def test_a_tenant_with_a_very_long_name_is_served_or_refused_but_breaks_nothing(service: RunningService) -> None:
    somebody = service.api(random.Random(5).randbytes(3000).hex())
    assert somebody.get("/model/").status_code in {200, 401}
    imported = somebody.post("/model/import/JSON/SAMPLE_DATA/prize/1", SAMPLE)
    assert imported.status_code < 500, imported.text
