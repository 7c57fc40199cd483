"""Parameters of playbooks."""

from statewright.api.http.request import Request
from statewright.failures import InvalidParameter


def read_path(request: Request) -> str:
    """The path of a playbook in a URL. Raises ``InvalidParameter`` for a NUL, which PostgreSQL does not take."""
    path = request.path_params["path"]
    if "\0" in path:
        raise InvalidParameter("path")
    return path
