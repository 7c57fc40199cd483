"""Every schema that the operations of the REST API refer to, by name; the step engine's are in ``openapi.steps``."""

from typing import Final

from statewright.api.http.openapi.schemas.audit import AUDIT
from statewright.api.http.openapi.schemas.conditions import CONDITIONS
from statewright.api.http.openapi.schemas.entities import ENTITIES
from statewright.api.http.openapi.schemas.messages import MESSAGES
from statewright.api.http.openapi.schemas.models import MODELS
from statewright.api.http.openapi.schemas.operations import OPERATIONS
from statewright.api.http.openapi.schemas.search import SEARCH
from statewright.api.http.openapi.schemas.statistics import STATISTICS
from statewright.api.http.openapi.schemas.workflows import WORKFLOWS
from statewright.api.http.openapi.shapes import Document

SCHEMAS: Final[Document] = {
    **MODELS,
    **WORKFLOWS,
    **ENTITIES,
    **STATISTICS,
    **AUDIT,
    **CONDITIONS,
    **SEARCH,
    **MESSAGES,
    **OPERATIONS,
}
