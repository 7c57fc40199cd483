"""Subscriptions: who is told of what was committed, what became of it, and what operators do about it
(docs/console.md#pages).
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from msgspec import Struct

from statewright.console.acts import Body, ask, lead_to, send
from statewright.console.calls import Method, Reply, build_ops_call
from statewright.console.pages.listing import ListView, build_list
from statewright.console.request import OPERATOR, Action, Form, Navigation, Page, PageContext, Routes
from statewright.console.views.entities import write_text
from statewright.console.views.page import Choice, Crumb, View
from statewright.jsonval.codec import encode
from statewright.operations.subscriptions import (
    DELIVERY_STATUSES,
    Delivery,
    ShownTarget,
    Subscription,
    SubscriptionFilter,
    WebhookTest,
)

ROOT: Final = "/console/subscriptions"
CRUMB: Final = Crumb("Subscriptions", ROOT)
FEATURE: Final = "subscriptions"
MARKS: Final[Mapping[str, str]] = {
    "ACTIVE": "ok",
    "STARTING": "info",
    "FAILING": "warn",
    "DISABLED": "off",
    "DELIVERED": "ok",
    "PENDING": "info",
    "RETRYING": "warn",
    "DEAD": "bad",
}
"""Of the statuses of subscriptions and of deliveries."""
SHOWN: Final = ("ALL", *DELIVERY_STATUSES)
"""Which deliveries are listed."""

TEST_TIMEOUT_S: Final = 40.0
"""A broker has twice fifteen seconds until it keeps what it is sent."""

OVERLAPS: Final = Choice(
    "overlap",
    "The secret before signs, too,",
    (("PT24H", "for a day"), ("PT1H", "for an hour"), ("P7D", "for a week"), ("PT0S", "no more")),
)


class SubscriptionRow(Struct, frozen=True):
    """A subscription as lists and its page show it; the ``mark`` goes with its status."""

    mark: str
    subscription: Subscription

    @property
    def target(self) -> tuple[str, str]:
        """The kind of the target, and what it is called."""
        return name_target(self.subscription.target)

    @property
    def is_signed(self) -> bool:
        """Whether there is a secret: messages to brokers are not signed."""
        return self.subscription.target.url is not None


class SubscriptionView(Struct, frozen=True, kw_only=True):
    """One subscription, and a page of those of its deliveries that are looked at."""

    row: SubscriptionRow
    filters: tuple[tuple[tuple[str, str], ...], ...]
    """Alternatives, each of what has to be so."""
    shown: str
    choices: tuple[str, ...]
    list: ListView[tuple[str, Delivery]]
    """Each with the mark of its status."""


class TestedView(Struct, frozen=True):
    """What came of a test."""

    id: str
    result: WebhookTest


def name_target(target: ShownTarget) -> tuple[str, str]:
    """The kind of a target, and its own name."""
    if target.kafka is not None:
        return "Kafka", target.kafka.topic
    if target.nats is not None:
        return "NATS", target.nats.subject
    return "webhook", target.url or ""


def describe_filter(wanted: SubscriptionFilter) -> tuple[tuple[str, str], ...]:
    """What has to be so of an event; nothing for one that matches all."""
    model = wanted.model_name or ""
    version = "" if wanted.model_version is None else f"/{wanted.model_version}"
    told = (
        ("kinds", ", ".join(wanted.kinds or ())),
        ("model", f"{model}{version}"),
        ("from state", wanted.from_state or ""),
        ("to state", wanted.to_state or ""),
        ("transition", wanted.transition or ""),
        ("condition", "" if wanted.body_predicate is None else write_text(wanted.body_predicate)),
    )
    return tuple((label, text) for label, text in told if text)


async def show_subscriptions(request: PageContext) -> View:
    """A page of the list."""
    found = await request.call_one(build_ops_call("subscriptions", query=request.query.read_page()))
    rows = [SubscriptionRow(MARKS[each.status], each) for each in found.require().read_items(Subscription)]
    return View(title="Subscriptions", data=build_list(request.query, found, rows))


async def show_subscription(request: PageContext) -> View:
    """One subscription with its deliveries."""
    id_, query = request.params["id"], request.query
    shown = query.get_choice("status", SHOWN)
    statuses = () if shown == "ALL" else (shown,)
    found, deliveries = await request.call(
        build_ops_call("subscriptions", id_),
        build_ops_call("subscriptions", id_, "deliveries", query={"status": statuses, **query.read_page()}),
    )
    subscription = found.read(Subscription)
    rows = [(MARKS[each.status], each) for each in deliveries.require().read_items(Delivery)]
    data = SubscriptionView(
        row=SubscriptionRow(MARKS[subscription.status], subscription),
        filters=tuple(map(describe_filter, subscription.filters)),
        shown=shown,
        choices=SHOWN,
        list=build_list(query, deliveries, rows),
    )
    return View(title=f"Subscription {subscription.name}", data=data, crumbs=(CRUMB,))


def _show(
    what: str, view: Callable[[Form, Reply], Struct]
) -> Callable[[PageContext, Form, Reply], Awaitable[View | None]]:
    """Shows what an act has answered, in a template of its own."""

    async def show(_context: PageContext, form: Form, reply: Reply) -> View | None:
        if not reply.is_ok:
            return None
        template = f"pages/subscription_{what.lower()}.html"
        return View(title=f"{what} of a subscription", data=view(form, reply), template=template, crumbs=(CRUMB,))

    return show


def _switch(enabled: bool) -> Callable[[Form], bytes]:
    return lambda _form: encode({"enabled": enabled})


def _write_redelivery(form: Form) -> bytes:
    return encode({"deliveryIds": [form.require("delivery")]})


def _write_rotation(form: Form) -> bytes:
    return encode({"overlap": form.get_choice("overlap", tuple(value for value, _ in OVERLAPS.options))})


_SAME: Final = f"{ROOT}/{{subscription}}"
_PATH: Final = "/ops/v1/subscriptions/{subscription}"


def _build_act(name: str, label: str, method: Method, path: str, body: Body, question: str, *details: str) -> Action:
    return Action(
        name,
        label,
        send(method, f"{_PATH}{path}", body),
        lead_to(_SAME),
        ask(question, *details, back=_SAME),
        role=OPERATOR,
        is_dangerous=name == "disable_subscription",
    )


ROUTES: Final[Routes] = (
    Page(
        name="subscriptions",
        path=ROOT,
        show=show_subscriptions,
        navigation=Navigation("System", "Subscriptions", role=OPERATOR),
        feature=FEATURE,
    ),
    Page(name="subscription", path=f"{ROOT}/{{id}}", show=show_subscription, feature=FEATURE),
    _build_act(
        *("enable_subscription", "Enable", "PATCH", "", _switch(True)),
        "Enable this subscription?",
        "It goes on with what it was not sent yet.",
    ),
    _build_act(
        *("disable_subscription", "Disable", "PATCH", "", _switch(False)),
        "Disable this subscription?",
        "Nothing is sent until it is enabled; what is committed meanwhile is sent then, as long as it is kept.",
    ),
    _build_act(
        *("redeliver_event", "Send again", "POST", "/redeliver", _write_redelivery),
        "Send this event again?",
        "Its receiver tells by the id of the event that it has had it.",
    ),
    Action(
        "test_subscription",
        "Send a test",
        send("POST", f"{_PATH}/test", {}, timeout_s=TEST_TIMEOUT_S),
        lead_to(_SAME),
        show=_show("Test", lambda form, reply: TestedView(form.require("subscription"), reply.read(WebhookTest))),
        role=OPERATOR,
    ),
    Action(
        "rotate_subscription_secret",
        "Rotate secret",
        send("POST", f"{_PATH}/rotate-secret", _write_rotation),
        lead_to(_SAME),
        ask("Sign by another secret?", "It is shown once.", back=_SAME, choices=(OVERLAPS,)),
        show=_show("Secret", lambda _form, reply: reply.read(Subscription)),
        role=OPERATOR,
    ),
)
