"""The settings in force, for administrators (docs/reference/operations.md#settings)."""

from statewright.settings import SETTINGS
from tests.integration.ops.builders import ops_api
from tests.service import RunningService, done, refused, signing_key_pem


def test_every_setting_is_told_and_no_secret(service: RunningService, tenant: str) -> None:
    answer = ops_api(service, tenant, "ROLE_ADMIN").get("/settings")
    items = {item["name"]: item for item in done(answer)["items"]}
    assert items.keys() == {f"STATEWRIGHT_{name.upper()}" for name in SETTINGS}
    assert items["STATEWRIGHT_IAM_MODE"]["value"] == "jwt"
    assert items["STATEWRIGHT_POSTGRES_URL"]["value"] == items["STATEWRIGHT_JWT_SIGNING_KEY"]["value"] == "********"
    assert items["STATEWRIGHT_METRICS_BEARER"]["value"] is None
    assert items["STATEWRIGHT_SHUTDOWN_TIMEOUT"]["value"] == "10s"
    for secret in (service.database, signing_key_pem().splitlines()[1]):
        assert secret not in answer.text


def test_settings_are_for_administrators(service: RunningService, tenant: str) -> None:
    for roles in ((), ("ROLE_OPERATOR",)):
        refused(ops_api(service, tenant, *roles).get("/settings"), 403, "FORBIDDEN")
