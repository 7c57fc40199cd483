"""Who is told of what was committed, by webhooks (docs/reference/operations.md#subscriptions)."""

from collections.abc import Mapping, Sequence

from statewright.jsonval.values import JsonValue
from statewright.operations import subscriptions
from statewright.operations.events import IncludeBody
from statewright.sdk.exchange import Items, make_method
from statewright.sdk.operations.calls import Instant, Operation, Page, Script, build_query
from statewright.sdk.operations.ops.work import read_list, request


def create(
    name: str,
    target: str | subscriptions.SubscriptionTarget,
    *,
    headers: Mapping[str, str] | None = None,
    filters: Sequence[subscriptions.SubscriptionFilter] = (subscriptions.SubscriptionFilter(),),
    include_body: IncludeBody = "NONE",
    start_at: Instant | None = None,
    max_in_flight: int | None = None,
    disable_after_failures: int = 50,
    enabled: bool = True,
    idempotency_key: str | None = None,
) -> Operation[subscriptions.Subscription]:
    """Have events sent to a URL by signed webhooks, or to a broker, from an instant on, or from now. The secret is in
    this answer only. For operators.
    """
    if isinstance(target, str):
        target = subscriptions.SubscriptionTarget(url=target, headers=dict(headers or {}))
    body = subscriptions.SubscriptionOrder(
        name=name,
        target=target,
        filters=list(filters),
        include_body=include_body,
        start_at="NOW" if start_at is None else dict(build_query(at=start_at))["at"],
        max_in_flight=max_in_flight,
        disable_after_failures=disable_after_failures,
        enabled=enabled,
    )
    return request(subscriptions.CREATE_SUBSCRIPTION, body=body, key=idempotency_key)


def change(
    subscription_id: str, patch: Mapping[str, JsonValue], *, idempotency_key: str | None = None
) -> Operation[subscriptions.Subscription]:
    """Change a subscription by a JSON merge patch, such as ``{"enabled": False}``. For operators."""
    return request(subscriptions.CHANGE_SUBSCRIPTION, subscription_id, body=dict(patch), key=idempotency_key)


def get(subscription_id: str) -> Operation[subscriptions.Subscription]:
    """One subscription. For operators."""
    return request(subscriptions.GET_SUBSCRIPTION, subscription_id)


def list_all() -> Script[Page[subscriptions.Subscription]]:
    """The subscriptions of the tenant, by id. For operators."""
    return read_list(subscriptions.LIST_SUBSCRIPTIONS)


def delete(subscription_id: str, *, idempotency_key: str | None = None) -> Operation[subscriptions.Subscription]:
    """End a subscription, with all that waits for it. For operators."""
    return request(subscriptions.DELETE_SUBSCRIPTION, subscription_id, key=idempotency_key)


def rotate_secret(
    subscription_id: str, *, overlap: str = "PT24H", idempotency_key: str | None = None
) -> Operation[subscriptions.Subscription]:
    """Sign by a new secret, which is in the answer, and for a while by the one before. For operators."""
    body = subscriptions.Rotation(overlap=overlap)
    return request(subscriptions.ROTATE_SECRET, subscription_id, body=body, key=idempotency_key)


def send_test(subscription_id: str, *, idempotency_key: str | None = None) -> Operation[subscriptions.WebhookTest]:
    """Send a test now, and tell what came of it. For operators."""
    return request(subscriptions.TEST_SUBSCRIPTION, subscription_id, body={}, key=idempotency_key)


def list_deliveries(
    subscription_id: str, *, status: Sequence[subscriptions.DeliveryStatus] = (), subject: str | None = None
) -> Script[Page[subscriptions.Delivery]]:
    """What became of the events of a subscription, newest first. For operators."""
    return read_list(subscriptions.LIST_DELIVERIES, subscription_id, query={"status": status, "subject": subject})


def redeliver(
    subscription_id: str,
    *,
    delivery_ids: Sequence[str] | None = None,
    since: Instant | None = None,
    until: Instant | None = None,
    idempotency_key: str | None = None,
) -> Operation[subscriptions.Requeued]:
    """Send deliveries again that have ended: some, or those of events between two instants. For operators."""
    times = dict(build_query(since=since, until=until))
    body = subscriptions.Redelivery(
        delivery_ids=None if delivery_ids is None else list(delivery_ids),
        since=times.get("since"),
        until=times.get("until"),
    )
    return request(subscriptions.REDELIVER, subscription_id, body=body, key=idempotency_key)


class SubscriptionMethods:
    """The methods of ``Client.subscriptions``."""

    list = Items(list_all)
    get = make_method(get)
    create = make_method(create)
    change = make_method(change)
    delete = make_method(delete)
    rotate_secret = make_method(rotate_secret)
    test = make_method(send_test)
    deliveries = Items(list_deliveries)
    redeliver = make_method(redeliver)
