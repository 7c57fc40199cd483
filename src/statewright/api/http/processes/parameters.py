"""Query and path parameters of process languages. Nothing in a query is refused but a NUL character
(docs/reference/steps.md#rest).
"""

from typing import Final

from statewright.api.http.request import Request
from statewright.failures import InvalidParameter, ProcessBadRequest, ProcessNotFound

_MAX_INT32: Final = 2**31 - 1
_MAX_DIGITS: Final = 18


def read_text(request: Request, name: str) -> str:
    """The first value of a query parameter, empty when absent."""
    values = request.query_all(name)
    return values[0] if values else ""


def read_number(request: Request, name: str) -> int:
    """A query parameter as an integer; 0 when absent or none."""
    given = read_text(request, name)
    return _clamp(int(given)) if _is_integer(given) else 0


def read_flag(request: Request, name: str) -> bool:
    """Whether a query parameter says ``true`` or ``1``."""
    return read_text(request, name).lower() in {"true", "1"}


def read_direction(request: Request) -> bool:
    """Whether a diagram is to go from top to bottom. Raises ``InvalidParameter`` for an unknown direction."""
    direction = read_text(request, "direction") or "LR"
    if direction not in ("LR", "TB"):
        raise InvalidParameter("direction")
    return direction == "TB"


def read_definition_id(request: Request) -> str:
    """The id of a definition in the path. Raises ``InvalidParameter`` for a NUL, which PostgreSQL does not take."""
    given = request.path_params["id"]
    if "\0" in given:
        raise InvalidParameter("id")
    return given


def read_version(request: Request) -> int:
    """The version in the path. Raises ``ProcessBadRequest``, and ``ProcessNotFound`` for what no version can be."""
    given = request.path_params["version"]
    if not _is_integer(given):
        raise ProcessBadRequest("invalid version parameter")
    if not 0 < int(given) <= _MAX_INT32:
        raise ProcessNotFound("definition not found")
    return int(given)


def _is_integer(given: str) -> bool:
    digits = given[1:] if given[:1] in {"+", "-"} else given
    return digits.isascii() and digits.isdecimal() and len(digits) <= _MAX_DIGITS


def _clamp(value: int) -> int:
    return min(max(value, -_MAX_INT32), _MAX_INT32)
