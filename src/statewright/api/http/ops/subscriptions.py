"""Who is told of what was committed, by webhooks (docs/reference/operations.md#subscriptions)."""

import msgspec

from statewright.api.http.ops.paging import build_list_response, read_page_request, read_words
from statewright.api.http.ops.route import read_body, read_id, read_json_body, refuse_misfit, serve
from statewright.api.http.request import Request, read_entity_id
from statewright.api.http.response import Response, encode_json
from statewright.operations.bulk_jobs import NoMembers
from statewright.operations.subscriptions import (
    CHANGE_SUBSCRIPTION,
    CREATE_SUBSCRIPTION,
    DELETE_SUBSCRIPTION,
    DELIVERY_STATUSES,
    GET_SUBSCRIPTION,
    LIST_DELIVERIES,
    LIST_SUBSCRIPTIONS,
    REDELIVER,
    ROTATE_SECRET,
    TEST_SUBSCRIPTION,
    Redelivery,
    Rotation,
    SubscriptionOrder,
)
from statewright.services.ops import subscriptions
from statewright.services.ops.subscriptions import DeliveryFilter, DeliveryKey, SubscriptionKey, Subscriptions


def _get_parts(request: Request) -> Subscriptions:
    return request.runtime.operations.webhooks.parts


async def _respond(found: object) -> Response:
    return Response(encode_json(found))


async def _respond_accepted(found: object) -> Response:
    return Response(encode_json(found), REDELIVER.status)


@serve(CREATE_SUBSCRIPTION)
async def create_subscription(request: Request) -> Response:
    """Have events sent by signed webhooks."""
    order = await read_body(request, SubscriptionOrder)
    operations = request.runtime.operations
    made = await subscriptions.create(_get_parts(request), operations.concerns.suspensions, request.caller, order)
    operations.webhooks.wake()
    return Response(encode_json(made), CREATE_SUBSCRIPTION.status)


@serve(LIST_SUBSCRIPTIONS)
async def list_subscriptions(request: Request) -> Response:
    """The subscriptions of the tenant, by id."""
    page = read_page_request(request, LIST_SUBSCRIPTIONS, SubscriptionKey)
    found = await subscriptions.list_all(_get_parts(request), request.caller, page)
    return build_list_response(request, LIST_SUBSCRIPTIONS, found)


@serve(GET_SUBSCRIPTION)
async def get_subscription(request: Request) -> Response:
    """One subscription."""
    return await _respond(
        await subscriptions.get(_get_parts(request), request.caller, read_id(request, GET_SUBSCRIPTION))
    )


@serve(CHANGE_SUBSCRIPTION)
async def change_subscription(request: Request) -> Response:
    """Change a subscription by a merge patch."""
    patch, revision = await read_json_body(request), request.read_if_match(takes_any=True)
    id_ = read_id(request, CHANGE_SUBSCRIPTION)
    try:
        changed = await subscriptions.change(_get_parts(request), request.caller, id_, patch, revision)
    except msgspec.ValidationError as misfit:
        raise refuse_misfit(misfit, SubscriptionOrder) from misfit
    request.runtime.operations.webhooks.wake()
    return await _respond(changed)


@serve(DELETE_SUBSCRIPTION)
async def delete_subscription(request: Request) -> Response:
    """End a subscription, with all that waits for it."""
    id_, follower = read_id(request, DELETE_SUBSCRIPTION), request.runtime.operations.concerns.suspensions
    return await _respond(await subscriptions.delete(_get_parts(request), follower, request.answer_with(_respond), id_))


@serve(ROTATE_SECRET)
async def rotate_secret(request: Request) -> Response:
    """Sign by a new secret, and for a while by the one before."""
    wish, id_ = await read_body(request, Rotation), read_id(request, ROTATE_SECRET)
    return await _respond(await subscriptions.rotate_secret(_get_parts(request), request.caller, id_, wish))


@serve(TEST_SUBSCRIPTION)
async def test_subscription(request: Request) -> Response:
    """Send a test now."""
    await read_body(request, NoMembers)
    id_ = read_id(request, TEST_SUBSCRIPTION)
    return await _respond(await request.runtime.operations.webhooks.test(request.caller, id_))


@serve(LIST_DELIVERIES)
async def list_deliveries(request: Request) -> Response:
    """What became of the events of a subscription, newest first."""
    subject = request.query("subject")
    wanted = DeliveryFilter(
        statuses=read_words(request, "status", DELIVERY_STATUSES),
        subject=None if subject is None else read_entity_id("subject", subject),
        since=request.query_instant("atFrom"),
        before=request.query_instant("atTo"),
    )
    page = read_page_request(request, LIST_DELIVERIES, DeliveryKey)
    id_ = read_id(request, LIST_DELIVERIES)
    found = await subscriptions.list_deliveries(_get_parts(request), request.caller, id_, wanted, page)
    return build_list_response(request, LIST_DELIVERIES, found)


@serve(REDELIVER)
async def redeliver(request: Request) -> Response:
    """Send deliveries again."""
    wish, id_ = await read_body(request, Redelivery), read_id(request, REDELIVER)
    return await _respond_accepted(
        await subscriptions.redeliver(_get_parts(request), request.answer_with(_respond_accepted), id_, wish)
    )
