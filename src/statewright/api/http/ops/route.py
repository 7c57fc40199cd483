"""What the routes of the operations API have in common (docs/reference/operations.md#common-rules)."""

from collections.abc import Callable

from statewright.api.http.router import Endpoint, Route
from statewright.operations.idempotency import Recording
from statewright.operations.records import name_record
from statewright.operations.table import ADMIN as ADMIN
from statewright.operations.table import OPERATOR as OPERATOR
from statewright.operations.table import ApiOperation


class OpsRoute(Route, frozen=True, kw_only=True):
    """An operation of operators and automation. ``path`` is the whole one: it is at the root of the server.

    Unknown query parameters are refused.
    """

    tag: str = "Ops"
    is_ours: bool = True
    recording: Recording = "transaction"


def serve(operation: ApiOperation[object]) -> Callable[[Endpoint], OpsRoute]:
    """A decorator that makes an endpoint the route of an operation."""

    def build(endpoint: Endpoint) -> OpsRoute:
        return OpsRoute(
            method=operation.method,
            path=operation.path,
            endpoint=endpoint,
            id=operation.id,
            summary=operation.summary,
            allowed_roles=frozenset() if operation.role is None else frozenset({operation.role, ADMIN}),
            recording=operation.recording,
            is_read=operation.is_read,
            query=operation.query,
            body=None if operation.body is None else name_record(operation.body),
            body_required=operation.body_required,
            reply=name_record(operation.answer),
            status=operation.status,
            problems=operation.problems,
        )

    return build
