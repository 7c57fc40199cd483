"""Webhooks stay within what all requests to other servers are permitted (docs/reference/egress.md#what-is-refused)."""

import pytest

from statewright.app.authentication import build_webhook_egress
from statewright.egress.policy import EgressPolicy, HttpFailure
from statewright.operations.subscriptions import MAX_SUBSCRIPTIONS, MAX_WEBHOOKS
from statewright.settings import Settings


def policy_of(**settings: object) -> EgressPolicy:
    return build_webhook_egress(Settings(**settings)).policy  # type: ignore[arg-type]


def reason(policy: EgressPolicy, url: str) -> str | None:
    checked = policy.check_url(url)
    return checked.reason if isinstance(checked, HttpFailure) else None


@pytest.mark.parametrize(
    ("settings", "url", "refused"),
    [
        ({}, "https://hooks.example.org/", None),
        ({}, "http://hooks.example.org/", "scheme_refused"),
        ({"webhook_allow_http": True}, "http://hooks.example.org/", None),
        ({"webhook_allow_http": True, "egress_require_https": True}, "http://hooks.example.org/", "scheme_refused"),
        ({"egress_hosts": ("*.example.com",)}, "https://hooks.example.org/", "host_refused"),
        ({"egress_hosts": ("*.example.com",)}, "https://hooks.example.com/", None),
        ({"egress_ports": ((443, 443),)}, "https://hooks.example.org:8443/", "port_refused"),
        ({"egress_ports": ((22, 22), (443, 2000))}, "https://hooks.example.org:1500/", None),
        ({"egress_ports": ((22, 22), (443, 2000))}, "https://hooks.example.org:500/", "port_refused"),
        ({"egress_ports": ((22, 22),)}, "https://hooks.example.org:22/", "port_refused"),
    ],
)
def test_what_the_operator_refuses_is_refused_for_webhooks(
    settings: dict[str, object], url: str, refused: str | None
) -> None:
    assert reason(policy_of(**settings), url) == refused


def test_no_tenant_has_all_that_are_under_way_and_what_its_subscriptions_hold_may_wait() -> None:
    limits = policy_of().limits
    assert limits.max_tenant_requests == limits.max_requests // 2
    assert limits.max_tenant_waiting >= MAX_SUBSCRIPTIONS * MAX_WEBHOOKS
