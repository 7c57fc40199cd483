"""Every route of the operations API. The router, the OpenAPI document, help and tests are made from this table."""

from typing import Final

from statewright.api.http.ops.audit import AUDIT
from statewright.api.http.ops.changes import CHANGES
from statewright.api.http.ops.events import EVENTS
from statewright.api.http.ops.explain import EXPLAIN
from statewright.api.http.ops.idempotency import IDEMPOTENCY
from statewright.api.http.ops.idle_entities import IDLE_ENTITIES
from statewright.api.http.ops.incidents import INCIDENTS
from statewright.api.http.ops.instance_counts import INSTANCE_COUNTS
from statewright.api.http.ops.listings import LISTINGS
from statewright.api.http.ops.nodes import NODES
from statewright.api.http.ops.queues import QUEUES
from statewright.api.http.ops.rates import RATES
from statewright.api.http.ops.route import OpsRoute
from statewright.api.http.ops.searches import SEARCHES
from statewright.api.http.ops.settings import EFFECTIVE_SETTINGS
from statewright.api.http.ops.simulations import SIMULATIONS
from statewright.api.http.ops.suspensions import SUSPENSIONS
from statewright.api.http.ops.transactions import TRANSACTIONS
from statewright.api.http.ops.versions import VERSIONS
from statewright.api.http.ops.wait import WAIT
from statewright.api.http.ops.workflow_checks import WORKFLOW_CHECKS
from statewright.api.http.request import Request
from statewright.api.http.response import Response, encode_json

VERSION: Final = "1.0"

FEATURES: Final = (
    "audit",
    "changes",
    "entity-events",
    "entity-search",
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
    "suspensions",
    "transactions",
    "versions",
    "wait",
    "workflow-checks",
)
"""The parts of the API that this program has, as clients look for them."""


async def describe_api(request: Request) -> Response:
    """What this API offers, and who asks."""
    principal = request.principal
    who = {"id": principal.id, "kind": principal.kind, "roles": principal.roles}
    return Response(
        encode_json({"version": VERSION, "features": FEATURES, "principal": who, "tenant": principal.tenant})
    )


OPS_ROUTES: Final[tuple[OpsRoute, ...]] = (
    OpsRoute(
        method="GET",
        path="/ops/v1",
        endpoint=describe_api,
        id="describeOperationsApi",
        summary="What this API offers, and who asks",
        reply="OpsDescription",
        problems=("BAD_REQUEST",),
    ),
    *AUDIT,
    *CHANGES,
    *EFFECTIVE_SETTINGS,
    *EVENTS,
    *EXPLAIN,
    *IDEMPOTENCY,
    *IDLE_ENTITIES,
    *INCIDENTS,
    *INSTANCE_COUNTS,
    *LISTINGS,
    *NODES,
    *QUEUES,
    *RATES,
    *SEARCHES,
    *SUSPENSIONS,
    *TRANSACTIONS,
    *VERSIONS,
    *WAIT,
    *SIMULATIONS,
    *WORKFLOW_CHECKS,
)
