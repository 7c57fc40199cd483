"""Every authenticated REST route: method, path, what it does, and what its documentation says.

One table serves Litestar, the hot paths of the front and the OpenAPI document, so none of them can know a route the
others do not. Each module has the routes of one tag.
"""

from statewright.api.http.routes.account import ACCOUNT
from statewright.api.http.routes.administration import ADMINISTRATION
from statewright.api.http.routes.audit import AUDIT
from statewright.api.http.routes.entities import ENTITIES
from statewright.api.http.routes.messages import MESSAGES
from statewright.api.http.routes.models import MODELS
from statewright.api.http.routes.route import Route
from statewright.api.http.routes.search import SEARCH
from statewright.api.http.routes.statistics import STATISTICS
from statewright.api.http.routes.workflows import WORKFLOWS

ROUTES: tuple[Route, ...] = (
    *MODELS,
    *WORKFLOWS,
    *ENTITIES,
    *STATISTICS,
    *AUDIT,
    *SEARCH,
    *MESSAGES,
    *ADMINISTRATION,
    *ACCOUNT,
)
