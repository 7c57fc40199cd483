"""The textual preprocessor in front of the grammar (spec/step-engine.md §10.1).

It knows nothing of string literals: what looks like one of its patterns is rewritten inside them, too.
"""

import re

from statewright.steps.core.expressions.errors import ExpressionError

_WRAPPED = re.compile(r"\$\{([^}]*)\}")
_LEGACY_MARK = re.compile(r"#(?=[A-Za-z0-9_.:-])")
_SINGLE_QUOTED = re.compile(r"'([^']*)'")
_CONTAINS_CALL = re.compile(r"\bcontains\(([^,()]*),([^()]*)\)")


def preprocess(text: str) -> str:
    """The expression in the base language. Raises :class:`ExpressionError` when a ``${`` is never closed."""
    opening = text.find("${")
    if opening >= 0 and "}" not in text[opening:]:
        raise ExpressionError("unterminated '${' in expression")
    text = _WRAPPED.sub(r"(\1)", text)
    text = _LEGACY_MARK.sub("", text)
    text = _SINGLE_QUOTED.sub(r'"\1"', text)
    return _CONTAINS_CALL.sub(_membership, text).strip()


def _membership(call: re.Match[str]) -> str:
    """``contains(xs, x)`` as ``((x) in (xs))``; the outer pair lets ``!contains(…)`` negate the whole."""
    collection, element = call.groups()
    return f"(({element.strip()}) in ({collection.strip()}))"
