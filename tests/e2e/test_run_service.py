"""The service that tests of users start for themselves (docs/sdk.md#against-a-real-service)."""

import pytest

from statewright.sdk.testing.service import ServiceNotReady, run_service, wait_for_state
from tests.e2e.program import free_ports
from tests.unit.docs.test_sdk_page import definitions


def choose_ports() -> dict[str, str]:
    """Ports that no other test gets."""
    return {f"STATEWRIGHT_{name}_PORT": str(port) for name, port in free_ports("HTTP", "GRPC", "ADMIN").items()}


def test_the_example_of_the_page_prices_an_order(database: str) -> None:
    page = definitions()
    with (
        run_service(database_url=database, settings=choose_ports()) as local,
        local.connect() as client,
    ):
        client.models.import_sample("order", 1, {"amount": 1, "total": 1})
        client.workflows.import_("order", 1, page["ORDERS"])
        client.models.lock("order", 1)
        page["test_an_order_is_priced"](local)
        left = client.create("order", 1, {"amount": 1})
        with pytest.raises(AssertionError, match="not in PRICED after 0 s: OPEN, WAITS_FOR_MANUAL") as raised:
            wait_for_state(client, left.id, "PRICED", timeout_s=0)
        assert "PRICE -> PRICED: NO_MEMBER" in str(raised.value)
        assert local.log


def test_a_service_that_cannot_start_says_why() -> None:
    wrong = {"STATEWRIGHT_IAM_MODE": "nobody"} | choose_ports()
    with pytest.raises(ServiceNotReady, match="IAM_MODE"), run_service(settings=wrong, timeout_s=60):
        pytest.fail("it must not get here")
