"""The OpenAPI 3.1 document, made from the table of routes (spec/auth-and-operations.md §24).

Litestar's own generator describes what its handlers declare; our parameters bind by the dialect's rules and our bodies
are documents of the client's models, so the table says it better (docs/adr/0002).
"""

from statewright.api.http.openapi.document import openapi_document
from statewright.api.http.openapi.page import docs_page

__all__ = ["docs_page", "openapi_document"]
