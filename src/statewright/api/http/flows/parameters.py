"""Query parameters of flows."""

from statewright.api.http.processes import parameters
from statewright.api.http.request import Request
from statewright.flows.mermaid import DiagramOptions


def read_diagram_options(request: Request) -> DiagramOptions:
    """How a diagram is wanted. Raises ``InvalidParameter`` for an unknown direction."""
    return DiagramOptions(is_vertical=parameters.read_direction(request), with_docs=request.query_flag("docs"))
