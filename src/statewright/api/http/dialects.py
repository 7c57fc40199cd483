"""The dialects of a service: the entity API, steps, flows and playbooks beside it, and the probes of load balancers.

The routes of the entity API are one table, which serves routing and the OpenAPI document, so none of them can know a
route the other does not. Each module has the routes of one tag.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from statewright.api.http import (
    administration,
    audit,
    clients,
    entities,
    entity_collections,
    keys,
    messages,
    models,
    providers,
    search,
    statistics,
)
from statewright.api.http.application import Dialect, Observe
from statewright.api.http.declaration import list_routes
from statewright.api.http.errors import build_error_format
from statewright.api.http.flows import FLOW_ROUTES
from statewright.api.http.ops.routes import OPS_ROUTES
from statewright.api.http.playbooks import PLAYBOOK_API
from statewright.api.http.processes.bodies import BARE_ERRORS
from statewright.api.http.processes.tables import ProcessApi
from statewright.api.http.request import Request
from statewright.api.http.response import TEXT, Response
from statewright.api.http.router import PublicRoute, Route
from statewright.api.http.security import ANY_ORIGIN, VARY, Cors, Headers, PageGuard
from statewright.api.http.steps.routes import STEP_ROUTES
from statewright.auth import Authenticator

_MODULES: Final = (
    models,
    entities,
    entity_collections,
    statistics,
    audit,
    search,
    messages,
    administration,
    clients,
    keys,
    providers,
)

ROUTES: Final = tuple(route for module in _MODULES for route in list_routes(module, Route))


OPS_ROOT: Final = "/ops/v1"

Ready = Callable[[], Awaitable[bool]]

STEP_PREFLIGHT: Final[Headers] = (
    (b"access-control-allow-methods", b"GET, POST, OPTIONS"),
    (
        b"access-control-allow-headers",
        b"Accept, Authorization, Content-Type, Idempotency-Key, If-Match, Last-Event-ID, Prefer",
    ),
    (b"access-control-max-age", b"300"),
)


def build_entity_dialect(
    context_path: str,
    authenticator: Authenticator,
    *,
    public: Sequence[PublicRoute],
    origins: tuple[str, ...] | None,
    guard: PageGuard | None = None,
    observe: Observe,
) -> Dialect:
    """The entity API below the context path. ``origins`` is None where CORS is switched off."""
    return Dialect(
        base=context_path,
        routes=ROUTES,
        public=public,
        authenticator=authenticator,
        errors=build_error_format(context_path),
        observe=observe,
        cors=None if origins is None else Cors(origins=origins),
        guard=guard,
        is_closed=True,
        answers_options=True,
        joins_transactions=True,
        redirects=dict.fromkeys(("/", context_path, f"{context_path}/", "/docs/"), "/docs"),
    )


PROCESS_APIS: Final[tuple[ProcessApi, ...]] = (
    ProcessApi(roots=("/v1/flows",), routes=FLOW_ROUTES),
    PLAYBOOK_API,
    ProcessApi(roots=("/v1",), routes=STEP_ROUTES, errors=BARE_ERRORS),
)
"""In the order in which they are asked for a path: the step dialect has all of ``/v1`` that others have not."""


def build_process_dialect(
    api: ProcessApi,
    authenticator: Authenticator,
    *,
    origins: tuple[str, ...] | None,
    guard: PageGuard | None = None,
    observe: Observe,
) -> Dialect:
    """The REST interface of a process language. Without configured origins any may call, as clients of the step engine
    expect (docs/reference/steps.md#conventions), unless there is a ``guard``: what needs no credentials is no page's to
    read.
    """
    cors = None
    if origins is not None:
        others = VARY if origins or guard is not None else ANY_ORIGIN
        cors = Cors(origins=origins, preflight=STEP_PREFLIGHT, preflight_status=200, others=others)
    return Dialect(
        base="",
        roots=api.roots,
        routes=api.routes,
        authenticator=authenticator,
        errors=api.errors,
        observe=observe,
        cors=cors,
        guard=guard,
    )


def build_ops_dialect(
    context_path: str,
    authenticator: Authenticator,
    *,
    origins: tuple[str, ...] | None,
    guard: PageGuard | None = None,
    observe: Observe,
) -> Dialect:
    """The operations API, at ``/ops/v1``; pages of help, which failures link to, are below the context path."""
    return Dialect(
        base="",
        roots=(OPS_ROOT,),
        routes=OPS_ROUTES,
        authenticator=authenticator,
        errors=build_error_format(context_path),
        observe=observe,
        cors=None if origins is None else Cors(origins=origins),
        guard=guard,
        is_closed=True,
    )


def build_absent_ops_dialect() -> Dialect:
    """Where the operations API is switched off, nothing tells that there is one."""

    async def refuse(_request: Request) -> Response:
        return Response(b"404 page not found\n", 404, TEXT)

    return Dialect(
        base="",
        roots=(OPS_ROOT,),
        public=(PublicRoute(method="ANY", path=OPS_ROOT, endpoint=refuse, is_tree=True),),
        errors=build_error_format(""),
    )


def build_probe_dialect(ready: Ready, guard: PageGuard | None = None) -> Dialect:
    """``/healthz`` and ``/readyz`` beside the APIs, with empty answers."""

    async def check_life(_request: Request) -> Response:
        return Response(b"", 200, "")

    async def check_readiness(_request: Request) -> Response:
        return Response(b"", 200 if await ready() else 503, "")

    return Dialect(
        base="",
        roots=("/healthz", "/readyz"),
        public=(
            PublicRoute(method="GET", path="/healthz", endpoint=check_life, is_probe=True),
            PublicRoute(method="GET", path="/readyz", endpoint=check_readiness, is_probe=True),
        ),
        errors=build_error_format(""),
        guard=guard,
        is_logged=False,
    )
