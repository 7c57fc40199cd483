"""Query and path parameters of the step dialect. Nothing in a query is ever refused (spec/step-engine.md §11)."""

from typing import Final

from statewright.api.http.exchange import Exchange
from statewright.failures import StepBadRequest, StepNotFound

_LARGEST: Final = 2**31 - 1
_DIGITS: Final = 18


def text(exchange: Exchange, name: str) -> str:
    """The first value of a query parameter, empty when absent."""
    values = exchange.query_all(name)
    return values[0] if values else ""


def number(exchange: Exchange, name: str) -> int:
    """A query parameter as an integer; 0 when absent or none."""
    given = text(exchange, name)
    return _clamped(int(given)) if _is_integer(given) else 0


def flag(exchange: Exchange, name: str) -> bool:
    """Whether a query parameter says ``true`` or ``1``."""
    return text(exchange, name).lower() in {"true", "1"}


def version(exchange: Exchange) -> int:
    """The version in the path. Raises ``StepBadRequest``, and ``StepNotFound`` for what no version can be."""
    given = exchange.segments["version"]
    if not _is_integer(given):
        raise StepBadRequest("invalid version parameter")
    if not 0 < int(given) <= _LARGEST:
        raise StepNotFound("definition not found")
    return int(given)


def _is_integer(given: str) -> bool:
    digits = given[1:] if given[:1] in {"+", "-"} else given
    return digits.isascii() and digits.isdecimal() and len(digits) <= _DIGITS


def _clamped(value: int) -> int:
    return min(max(value, -_LARGEST), _LARGEST)
