"""Every route of the operations API. The router, the OpenAPI document, help and tests are made from this table.

Checks of workflows as clients read them (docs/reference/operations.md#checking-workflows).
"""

from typing import Final

from statewright.api.http.ops.explain import EXPLAIN
from statewright.api.http.ops.incidents import IDEMPOTENCY, INCIDENTS
from statewright.api.http.ops.lists import (
    AUDIT,
    CHANGES,
    EFFECTIVE_SETTINGS,
    EVENTS,
    IDLE_ENTITIES,
    INSTANCE_COUNTS,
    LISTINGS,
    NODES,
    RATES,
    SEARCHES,
    TRANSACTIONS,
)
from statewright.api.http.ops.queues import QUEUES
from statewright.api.http.ops.route import OpsRoute, serve
from statewright.api.http.ops.simulations import SIMULATIONS
from statewright.api.http.ops.suspensions import SUSPENSIONS
from statewright.api.http.ops.versions import VERSIONS
from statewright.api.http.ops.wait import WAIT
from statewright.api.http.request import Request
from statewright.api.http.response import Response, encode_json
from statewright.operations.service import ApiDescription, Asker
from statewright.operations.table import CHECK_WORKFLOWS, DESCRIBE_OPERATIONS_API
from statewright.services.ops import checking
from statewright.workflow import MAX_IMPORT_BYTES


async def check_workflows(request: Request) -> Response:
    """What an import would come to; nothing is saved."""
    body = await request.body(MAX_IMPORT_BYTES)
    found = await checking.check_workflows(request.runtime.operations, request.caller, request.model_key(), body)
    return Response(encode_json(found))


WORKFLOW_CHECKS: Final = (serve(CHECK_WORKFLOWS, check_workflows),)


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
    who = Asker(id=principal.id, kind=principal.kind, roles=principal.roles)
    found = ApiDescription(version=VERSION, features=FEATURES, principal=who, tenant=principal.tenant)
    return Response(encode_json(found))


OPS_ROUTES: Final[tuple[OpsRoute, ...]] = (
    serve(DESCRIBE_OPERATIONS_API, describe_api),
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
