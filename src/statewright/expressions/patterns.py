"""Regular expressions of the RE2 dialect: matching takes time linear in the text, whatever the pattern
(docs/reference/steps.md#operators).
"""

# re2 comes without types; what is used of it is typed by _Pattern below.
# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false

from functools import lru_cache
from typing import Final, Protocol

import re2

from statewright.expressions.values import ExpressionError

_OPTIONS: Final = re2.Options()
_OPTIONS.log_errors = False
_OPTIONS.never_capture = True


class _Pattern(Protocol):
    """What is used of the patterns of ``re2``, which comes without types."""

    def search(self, text: str) -> object | None: ...


def matches(text: str, pattern: str) -> bool:
    """Whether ``pattern`` matches some part of ``text``. Raises :class:`ExpressionError` for a malformed pattern."""
    return _compile(pattern).search(text) is not None


@lru_cache(maxsize=256)
def _compile(pattern: str) -> _Pattern:
    try:
        compiled: _Pattern = re2.compile(pattern, _OPTIONS)
    except re2.error as error:
        reason = error.args[0] if error.args else "malformed"
        text = reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)
        raise ExpressionError(f"error parsing regexp: {text}") from None
    return compiled
