"""Every route of the operations API. The router, the OpenAPI document, help and tests are made from this table."""

from typing import Final

from statewright.api.http.declaration import list_routes
from statewright.api.http.ops import (
    bulk_jobs,
    checks,
    events,
    explanations,
    history,
    incidents,
    listings,
    queues,
    service,
    subscriptions,
    suspensions,
)
from statewright.api.http.ops.route import OpsRoute, serve
from statewright.api.http.request import Request
from statewright.api.http.response import Response, encode_json
from statewright.operations.service import ApiDescription, Asker
from statewright.operations.table import DESCRIBE_OPERATIONS_API

VERSION: Final = "1.0"

FEATURES: Final = (
    "audit",
    "bulk-jobs",
    "changes",
    "entity-events",
    "entity-search",
    "events-out",
    "explain",
    "idempotency",
    "idle-entities",
    "incidents",
    "instance-counts",
    "members",
    "messages",
    "nodes",
    "queues",
    "rates",
    "search-jobs",
    "settings",
    "simulations",
    "subscriptions",
    "suspensions",
    "transactions",
    "unique-keys",
    "versions",
    "wait",
    "workflow-checks",
    "workflow-revisions",
)
"""The parts of the API that this program has, as clients look for them."""


@serve(DESCRIBE_OPERATIONS_API)
async def describe_api(request: Request) -> Response:
    """What this API offers, and who asks."""
    principal = request.principal
    who = Asker(id=principal.id, kind=principal.kind, roles=principal.roles)
    found = ApiDescription(version=VERSION, features=FEATURES, principal=who, tenant=principal.tenant)
    return Response(encode_json(found))


_MODULES: Final = (
    bulk_jobs,
    checks,
    events,
    explanations,
    incidents,
    listings,
    queues,
    service,
    subscriptions,
    suspensions,
    history,
)

OPS_ROUTES: Final[tuple[OpsRoute, ...]] = (
    describe_api,
    *(route for module in _MODULES for route in list_routes(module, OpsRoute)),
)
