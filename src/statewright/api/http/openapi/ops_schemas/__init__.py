"""Schemas of the operations API, by subject. Objects are open: clients ignore members that they do not know."""

from typing import Final

from statewright.api.http.openapi.ops_schemas.explanations import EXPLANATIONS
from statewright.api.http.openapi.ops_schemas.incidents import INCIDENTS
from statewright.api.http.openapi.ops_schemas.queues import QUEUES
from statewright.api.http.openapi.ops_schemas.searches import SEARCHES
from statewright.api.http.openapi.ops_schemas.service import SERVICE
from statewright.api.http.openapi.ops_schemas.suspensions import SUSPENSIONS
from statewright.api.http.openapi.ops_schemas.versions import VERSIONS
from statewright.api.http.openapi.ops_schemas.workflows import WORKFLOWS
from statewright.api.http.openapi.shapes import Document

__all__ = ["OPS_SCHEMAS"]

OPS_SCHEMAS: Final[Document] = (
    EXPLANATIONS | QUEUES | SEARCHES | INCIDENTS | SUSPENSIONS | VERSIONS | WORKFLOWS | SERVICE
)
