"""Query parameters of flows."""

from statewright.api.http.processes import parameters
from statewright.api.http.request import Request
from statewright.failures import InvalidParameter
from statewright.flows.mermaid import DiagramOptions


def read_diagram_options(request: Request) -> DiagramOptions:
    """How a diagram is wanted. Raises ``InvalidParameter`` for an unknown direction."""
    direction = parameters.read_text(request, "direction") or "LR"
    if direction not in ("LR", "TB"):
        raise InvalidParameter("direction")
    return DiagramOptions(is_vertical=direction == "TB", with_docs=request.query_flag("docs"))
