"""Parameters of playbooks."""

from statewright.api.http.processes import parameters
from statewright.api.http.request import Request
from statewright.failures import InvalidParameter


def read_path(request: Request) -> str:
    """The path of a playbook in a URL. Raises ``InvalidParameter`` for a NUL, which PostgreSQL does not take."""
    path = request.path_params["path"]
    if "\0" in path:
        raise InvalidParameter("path")
    return path


def read_direction(request: Request) -> bool:
    """Whether a diagram is to go from top to bottom. Raises ``InvalidParameter`` for an unknown direction."""
    direction = parameters.read_text(request, "direction") or "LR"
    if direction not in ("LR", "TB"):
        raise InvalidParameter("direction")
    return direction == "TB"
