"""The operations API through the client of applications (docs/guides/client.md#operations)."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest

from statewright import Client, Conflicting, Missing, Unavailable
from statewright.sdk import ONCE
from statewright.sdk.conditions import field
from tests.builders import a_processor, a_workflow, automated, manual
from tests.integration.client.conftest import Connect
from tests.service import RunningService, a_token, eventually

LIFE = a_workflow(
    "life",
    NEW=[manual("PAY", to="PAID"), manual("CHECK", to="CHECKED", processors=[a_processor("nobody", tags="nobody")])],
    PAID=[manual("CLOSE", to="CLOSED")],
    CHECKED=[],
    CLOSED=[],
)


@pytest.fixture
def client(connect: Connect, service: RunningService, tenant: str) -> Client:
    """A client of an administrator, where there is a model ``order/1``."""
    client = connect(service.root, token=a_token(tenant, user_roles=["ROLE_ADMIN"]), retry=ONCE)
    client.models.import_sample("order", 1, {"sku": "A", "n": 1.5})
    client.workflows.import_("order", 1, LIFE)
    client.models.lock("order", 1)
    return client


def test_an_entity_is_explained_waited_for_and_brought_back(client: Client) -> None:
    made = client.create("order", 1, {"sku": "A", "n": Decimal("1.5")})
    found = client.ops.explain(made.id)
    assert (found.state, found.verdict, found.model.name) == ("NEW", "WAITS_FOR_MANUAL", "order")
    assert {each.name: each.blocked_by for each in found.transitions} == {"PAY": (), "CHECK": ("NO_MEMBER",)}
    assert not client.ops.wait(made.id, states=["PAID"], timeout_s=0).reached
    paid = client.update(made.id, {"sku": "B", "n": Decimal("2.5")}, transition="PAY")
    waited = client.ops.wait(made.id, states=["PAID", "CLOSED"])
    assert (waited.reached, waited.state, waited.transaction_id) == (True, "PAID", paid.transaction_id)
    changed = client.ops.diff(made.id)
    assert (changed.state.older, changed.state.newer, changed.older) == ("NEW", "PAID", made.transaction_id)
    assert {(each["path"], each["value"]) for each in changed.patch} == {("/sku", "B"), ("/n", Decimal("2.5"))}
    restored = client.ops.restore(made.id, made.transaction_id, reason="wrong", paths=["/sku"], idempotency_key="k-1")
    assert restored.restored
    assert client.get(made.id).data == {"sku": "A", "n": Decimal("2.5")}
    assert [each.state for each in client.ops.versions(made.id)] == ["PAID", "PAID", "NEW"]
    assert client.ops.version(made.id, made.transaction_id).document == {"sku": "A", "n": Decimal("1.5")}
    [act] = client.ops.audit(actions=["entity.restore"], target_id=made.id)
    assert (act.reason, act.target.id) == ("wrong", made.id)
    assert client.ops.idempotency("k-1").entity_ids == (made.id,)
    [written] = client.ops.transaction(paid.transaction_id)
    assert (written.entity_id, written.state) == (made.id, "PAID")
    assert {each.transaction_id for each in client.ops.changes(model="order")} >= {
        made.transaction_id,
        paid.transaction_id,
    }
    assert "TRANSITION_MAKE" in {each.event_type for each in client.ops.events(made.id)}


def test_matches_are_read_in_order_and_counted(client: Client) -> None:
    made = client.create_many("order", 1, [{"sku": f"S-{number}"} for number in range(5)]).entity_ids
    wanted = field("$.sku").starts_with("S-")
    found = list(client.ops.search("order", 1, wanted, sort=["sku:desc"], size=2))
    assert [each.id for each in found] == list(reversed(made))
    before = datetime.now(UTC) - timedelta(days=1)
    assert client.ops.count("order", 1, wanted).total == 5
    assert client.ops.count("order", 1, wanted, at=before).total == 0
    assert [(each.name, each.version) for each in client.ops.models()] == [("order", 1)]
    assert {each.entity_id for each in client.ops.idle(model="order")} == {*made}


def test_failed_work_is_listed_tried_again_and_closed(client: Client) -> None:
    made = client.create("order", 1, {"sku": "A"})
    with pytest.raises(Unavailable):
        client.transition(made.id, "CHECK")
    eventually(lambda: list(client.incidents.list(entity_id=made.id)))
    [incident] = client.incidents.list(entity_id=made.id, kinds=["RUN_FAILED"])
    assert (incident.transition, incident.code, incident.occurrences) == ("CHECK", "NO_COMPUTE_MEMBER_FOR_TAG", 1)
    assert [group.open for group in client.incidents.groups()] == [1]
    assert client.incidents.get(incident.id).payload == {
        "document": {"sku": "A"},
        "transition": "CHECK",
        "ifMatch": None,
    }
    with pytest.raises(Unavailable):
        client.incidents.retry(incident.id)
    closed = client.incidents.resolve(incident.id, "nobody will come")
    assert closed.resolution is not None
    assert (closed.status, closed.resolution.reason) == ("RESOLVED", "nobody will come")


def test_movement_is_stopped_and_goes_on(client: Client) -> None:
    made = client.create("order", 1, {"sku": "A"})
    held = client.suspensions.suspend("ENTITY", id=made.id, reason="under investigation")
    assert (held.active, held.effective, held.entity_id) == (True, True, made.id)
    with pytest.raises(Conflicting, match="SUSPENDED"):
        client.transition(made.id, "PAY")
    assert client.ops.explain(made.id).verdict == "SUSPENDED"
    assert [each.id for each in client.suspensions.list(scopes=["ENTITY"], active=True)] == [held.id]
    ended = client.suspensions.resume(held.id, reason="done")
    assert (ended.active, ended.end_reason) == (False, "done")
    assert client.suspensions.get(held.id).ended_by is not None
    client.transition(made.id, "PAY")


def test_workflows_are_checked_and_simulated(client: Client) -> None:
    bad = a_workflow("life", NEW=[automated("GO", to="NOWHERE")])
    verdict = client.ops.check_workflows("order", 1, bad)
    assert not verdict.importable
    assert "UNKNOWN_NEXT" in {each.code for each in verdict.findings}
    assert client.ops.check_workflows("order", 1, client.workflows.export("order", 1)).importable
    told = client.ops.simulate("order", 1, {"document": {"sku": "A"}}, [{"fire": "PAY"}, {"fire": "CLOSE"}])
    assert (told.outcome, told.state) == ("SETTLED", "CLOSED")
    assert [(each.from_state, each.to_state) for each in told.path] == [("NEW", "PAID"), ("PAID", "CLOSED")]


def test_the_service_tells_of_itself_and_who_works(client: Client, service: RunningService, tenant: str) -> None:
    told = client.ops.describe()
    assert (told.tenant, told.principal.roles) == (tenant, ("ROLE_ADMIN",))
    assert service.parts.node.id in {each.id for each in client.ops.nodes()}
    assert list(client.ops.members(kinds=["STREAM"])) == []
    with pytest.raises(Missing, match="MEMBER_NOT_FOUND"):
        client.ops.drain("nobody")
    assert list(client.ops.queues()) == []
    assert client.ops.queue("JOB_TYPE", "fax").wanted == 0
    assert client.ops.rates().transactions >= 0
    assert any(each.name == "STATEWRIGHT_CONTEXT_PATH" for each in client.ops.settings())


def test_instances_messages_and_searches_are_told(client: Client) -> None:
    client.flows.upload("@flow idle\nwait:delay (- duration: 3600 -) → :end")
    instance = client.flows.start("idle", {})
    told = client.ops.explain_instance(instance.id)
    assert (told.language, told.definition_id) == ("flows", "idle")
    assert not client.ops.wait_for_instance(instance.id, timeout_s=0).reached
    [counted] = client.ops.count_instances(language="flows").items
    assert (counted.definition_id, counted.count) == ("idle", 1)
    assert client.ops.count_steps("flows", "idle").is_lower_bound is False
    message = client.messages.send("greetings", {"hello": "world"})
    assert [each.id for each in client.ops.messages()] == [message]
    job = client.searches.start("order", 1, field("$.sku").equals("A"))
    client.searches.wait(job)
    assert [each.id for each in client.ops.search_jobs(statuses=["SUCCESSFUL"], model="order")] == [job]
