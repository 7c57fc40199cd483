"""What a client does when the service is busy or away; and when its token expires."""

import threading
from contextlib import nullcontext
from time import monotonic

import pytest

from statewright import Client, ClientCredentials, TokenUnavailable, Unavailable, Unreachable
from statewright.sdk import ONCE
from statewright.settings import Secret
from tests.builders import SAMPLE, a_processor, a_workflow, automated, manual
from tests.database import Template
from tests.e2e.program import free_ports
from tests.integration.client.conftest import Connect
from tests.integration.node import a_node
from tests.service import CLIENT_ID, CLIENT_SECRET, RunningService, a_token, eventually, hosted

CHECKED = a_workflow("w", NEW=[manual("CHECK", to="CHECKED", processors=[a_processor("check")])], CHECKED=[])


def test_a_request_that_the_service_marks_as_retryable_is_made_again(
    service: RunningService, client: Client, tenant: str
) -> None:
    """The member loses its connection in the middle of the first callout; the second is answered by another one."""
    client.models.import_sample("prize", 1, SAMPLE)
    client.workflows.import_("prize", 1, [CHECKED])
    client.models.lock("prize", 1)
    made = client.create("prize", 1, SAMPLE)
    fired = threading.Thread(target=client.transition, args=(made.id, "CHECK"))
    with a_node(service, tenant, "node") as first:
        fired.start()
        first.next()
    with a_node(service, tenant, "node") as second:
        second.answer_next()
        fired.join(20)
    assert client.get(made.id).state == "CHECKED"


def test_one_attempt_can_be_asked_for(connect: Connect, service: RunningService, tenant: str) -> None:
    client = connect(service.root, token=a_token(tenant), retry=ONCE)
    client.models.import_sample("prize", 1, SAMPLE)
    client.workflows.import_("prize", 1, [CHECKED])
    client.models.lock("prize", 1)
    made = client.create("prize", 1, SAMPLE)
    with pytest.raises(Unavailable) as refused:
        client.transition(made.id, "CHECK")
    assert (refused.value.code, refused.value.retryable) == ("NO_COMPUTE_MEMBER_FOR_TAG", True)


def test_a_service_that_is_not_there_is_told_in_words(connect: Connect) -> None:
    [port] = free_ports("HTTP").values()
    with pytest.raises(Unreachable, match=f"GET /api/model/ at http://127.0.0.1:{port}: Connection refused$") as lost:
        connect(f"http://127.0.0.1:{port}", retry=ONCE).models.list()
    assert not lost.value.was_sent


def test_a_service_that_comes_later_is_waited_for(connect: Connect, database_template: Template) -> None:
    ports = free_ports("HTTP")
    client = connect(f"http://127.0.0.1:{ports['HTTP']}", token=a_token("t"))
    answers: list[object] = []
    asking = threading.Thread(target=lambda: answers.append(client.models.import_sample("prize", 1, SAMPLE)))
    asking.start()
    with hosted(database_template.clone(), http_port=ports["HTTP"]):
        asking.join(30)
        assert [found.id for found in client.models.list()] == answers


def test_tokens_are_fetched_for_client_credentials_and_renewed(connect: Connect, database_template: Template) -> None:
    settings = {
        "bootstrap_client_id": CLIENT_ID,
        "bootstrap_client_secret": Secret(CLIENT_SECRET),
        "jwt_expiry_seconds": 1,
    }
    with hosted(database_template.clone(), **settings) as service:
        client = connect(service.root, token=ClientCredentials(client_id=CLIENT_ID, client_secret=CLIENT_SECRET))
        client.models.import_sample("prize", 1, SAMPLE)
        client.models.lock("prize", 1)
        begun = monotonic()
        eventually(lambda: client.create("prize", 1, SAMPLE) and monotonic() > begun + 2.5)  # the life of two tokens
        stranger = connect(service.root, token=ClientCredentials(client_id=CLIENT_ID, client_secret="wrong"))
        with pytest.raises(TokenUnavailable, match="/api/oauth/token: 401"):
            stranger.models.list()


def test_a_restart_in_the_middle_is_sat_out(connect: Connect, database: str) -> None:
    """Reads never fail; of a write that may have been carried out the client says so, and everything else is done."""
    ports = free_ports("HTTP")
    client = connect(f"http://127.0.0.1:{ports['HTTP']}", token=a_token("t"))
    stop, created, doubtful, reads = threading.Event(), [], [], []
    unexpected: list[Exception] = []

    def write() -> None:
        number = 0
        while not stop.is_set():
            number += 1
            try:
                client.create("prize", 1, {"year": number})
                created.append(number)
            except (Unreachable, Unavailable) as failure:
                is_doubt = failure.was_sent if isinstance(failure, Unreachable) else not failure.retryable
                unexpected.extend([] if is_doubt else [failure])
                doubtful.append(number)

    def read() -> None:
        while not stop.is_set():
            reads.append(client.count("prize", 1))

    work = [threading.Thread(target=write), threading.Thread(target=read)]
    with hosted(nullcontext(database), http_port=ports["HTTP"]):
        client.models.import_sample("prize", 1, SAMPLE)
        client.models.lock("prize", 1)
        for thread in work:
            thread.start()
        eventually(lambda: len(created) > 5 and len(reads) > 5)
    seen = len(created), len(reads)
    with hosted(nullcontext(database), http_port=ports["HTTP"]):
        eventually(lambda: len(created) > seen[0] + 5 and len(reads) > seen[1] + 5)
        stop.set()
        for thread in work:
            thread.join(40)
        found = sorted(entity.data["year"] for entity in client.iterate("prize", 1))
    assert unexpected == []
    assert set(created) <= set(found) <= set(created) | set(doubtful)
    assert len(found) == len(set(found))


STARTS_OUTSIDE = a_workflow(
    "w",
    NEW=[automated("CHARGE", to="CHARGED", processors=[a_processor("charge", mode="COMMIT_BEFORE_DISPATCH")])],
    CHARGED=[],
)


def test_a_create_of_which_a_part_is_durable_is_not_repeated(client: Client) -> None:
    """The refusal is retryable, but the entity is there: a second request would make a second one."""
    client.models.import_sample("prize", 1, SAMPLE)
    client.workflows.import_("prize", 1, [STARTS_OUTSIDE])
    client.models.lock("prize", 1)
    with pytest.raises(Unavailable) as refused:
        client.create("prize", 1, SAMPLE)
    assert refused.value.code == "NO_COMPUTE_MEMBER_FOR_TAG"
    [made] = client.iterate("prize", 1)
    trail = client.audit(made.id, transaction_id=str(refused.value.properties["transactionId"]))
    assert "STATE_MACHINE_START" in {event.type for event in trail}


def test_a_create_of_which_nothing_is_durable_is_repeated(service: RunningService, client: Client, tenant: str) -> None:
    client.models.import_sample("prize", 1, SAMPLE)
    started = a_workflow("w", NEW=[automated("CHECK", to="OK", processors=[a_processor("check")])], OK=[])
    client.workflows.import_("prize", 1, [started])
    client.models.lock("prize", 1)
    creating = threading.Thread(target=client.create, args=("prize", 1, SAMPLE))
    with a_node(service, tenant, "node") as first:
        creating.start()
        first.next()
    with a_node(service, tenant, "node") as second:
        second.answer_next()
        creating.join(20)
    assert [found.state for found in client.iterate("prize", 1)] == ["OK"]
