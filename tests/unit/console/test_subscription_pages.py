"""Pages of subscriptions: what a target and a filter are called, and what acts send (docs/console.md#pages)."""

import json

import pytest

from statewright.console.pages.subscriptions import ROUTES, describe_filter, name_target
from statewright.console.request import OPERATOR, Action, Form, InvalidField
from statewright.operations.subscriptions import KafkaTarget, NatsTarget, ShownTarget, SubscriptionFilter


def test_a_target_has_a_kind_and_a_name() -> None:
    targets = (
        ShownTarget(url="https://billing.example/hooks"),
        ShownTarget(kafka=KafkaTarget(bootstrap_servers=["kafka.example:9093"], topic="events")),
        ShownTarget(nats=NatsTarget(servers=["tls://nats.example"], subject="events.all")),
    )
    assert [name_target(one) for one in targets] == [
        ("webhook", "https://billing.example/hooks"),
        ("Kafka", "events"),
        ("NATS", "events.all"),
    ]


def test_a_filter_tells_what_has_to_be_so() -> None:
    wanted = SubscriptionFilter(kinds=["CREATED", "DELETED"], model_name="order", model_version=1, to_state="PAID")
    assert describe_filter(wanted) == (("kinds", "CREATED, DELETED"), ("model", "order/1"), ("to state", "PAID"))
    assert describe_filter(SubscriptionFilter()) == ()


@pytest.mark.parametrize(
    ("name", "fields", "method", "path", "body"),
    [
        ("enable_subscription", {}, "PATCH", "", {"enabled": True}),
        ("disable_subscription", {}, "PATCH", "", {"enabled": False}),
        ("test_subscription", {}, "POST", "/test", {}),
        ("redeliver_event", {"delivery": "d"}, "POST", "/redeliver", {"deliveryIds": ["d"]}),
        ("rotate_subscription_secret", {}, "POST", "/rotate-secret", {"overlap": "PT24H"}),
        ("rotate_subscription_secret", {"overlap": "PT0S"}, "POST", "/rotate-secret", {"overlap": "PT0S"}),
    ],
)
def test_acts_are_calls_for_operators(name: str, fields: dict[str, str], method: str, path: str, body: object) -> None:
    [act] = [route for route in ROUTES if isinstance(route, Action) and route.name == name]
    call = act.build(Form(tuple({"subscription": "s/1", **fields}.items())))
    assert (call.method, call.path, json.loads(call.body or b"")) == (
        method,
        f"/ops/v1/subscriptions/s%2F1{path}",
        body,
    )
    assert act.role == OPERATOR


def test_the_secret_before_signs_for_a_time_that_is_offered() -> None:
    [rotate] = [route for route in ROUTES if isinstance(route, Action) and route.name == "rotate_subscription_secret"]
    with pytest.raises(InvalidField):
        rotate.build(Form((("subscription", "s"), ("overlap", "P400D"))))
