"""What a label, a ``>`` or a bracket is, where the text alone does not say (docs/reference/flows.md#ambiguous-text).

Each is decided by its neighbours, with at most two tokens of look-ahead, so that the grammar behind has nothing left to
guess.
"""

from collections.abc import Iterable, Iterator
from typing import Final

from lark import Token

from statewright.flows.errors import FlowError
from statewright.flows.lexer import position_of

MAX_DEPTH: Final = 64
"""Of nested subflows."""

_STEP_STARTS: Final = frozenset({"NAME", "LBRACE", "LBRACKET", "QUESTION", "STAR", "MERGE"})
_OPENING: Final = frozenset({"LBRACE", "LBRACKET"})
_CLOSING: Final = frozenset({"RBRACE", "RBRACKET"})


class _Context:
    """What stands before a token."""

    def __init__(self) -> None:
        self.previous = ""
        self.in_declaration = False
        self.after_body = False
        """Whether a step's body has just ended."""
        self.open_declarations: list[bool] = []
        """For each open bracket, whether it belongs to a declaration."""


def assign_roles(tokens: Iterable[Token]) -> Iterator[Token]:
    """The tokens, with labels as ``SOURCE_LABEL``, ``INPUT_LABEL``, ``OUTPUT_LABEL`` or ``TARGET_LABEL``.

    A ``>`` before a destination becomes ``MERGE_INTO``, and the bracket that opens the subflow of a declaration
    ``DECLARED_LBRACE`` or ``DECLARED_LBRACKET``. Raises :class:`FlowError` for brackets that are nested too deeply.
    """
    context = _Context()
    listed = iter(tokens)
    token, following = next(listed, None), next(listed, None)
    while token is not None:
        kind = _find_role(context, token, following)
        _advance(context, token, kind)
        if len(context.open_declarations) > MAX_DEPTH:
            raise FlowError("LIMIT", position_of(token), f"subflows are nested at most {MAX_DEPTH} deep")
        if kind != token.type:
            token.type = kind
        yield token
        token, following = following, next(listed, None)


def _find_role(context: _Context, token: Token, following: Token | None) -> str:
    next_kind = following.type if following is not None else ""
    if token.type == "LABEL":
        return _find_label_role(context, token, next_kind)
    if token.type == "MERGE" and context.previous == "ARROW" and next_kind in {"LABEL", "URIREF"}:
        return "MERGE_INTO"
    if token.type in _OPENING and context.in_declaration:
        return f"DECLARED_{token.type}"
    return token.type


def _find_label_role(context: _Context, label: Token, next_kind: str) -> str:
    if context.previous == "MERGE_INTO":
        return "TARGET_LABEL"
    if context.previous == "ARROW":
        return "INPUT_LABEL" if label != "end" and next_kind in _STEP_STARTS else "TARGET_LABEL"
    if context.after_body and not (label == "start" and next_kind == "ARROW"):
        return "OUTPUT_LABEL"
    return "SOURCE_LABEL" if next_kind == "ARROW" else "INPUT_LABEL"


def _advance(context: _Context, token: Token, kind: str) -> None:
    if kind == "DECLARE":
        context.in_declaration, context.after_body = True, False
    elif kind.startswith("DECLARED_"):
        context.open_declarations.append(True)
        context.in_declaration = context.after_body = False
    elif kind in _OPENING:
        context.open_declarations.append(False)
        context.after_body = False
    elif kind in _CLOSING:
        context.after_body = bool(context.open_declarations) and not context.open_declarations.pop()
    elif kind in {"NAME", "PARAMS", "EQUALS", "DOC"}:
        if not context.in_declaration:
            context.after_body = kind == "NAME" or (kind == "PARAMS" and context.after_body)
        elif kind == "NAME" and context.previous not in {"DECLARE", "EQUALS"}:  # a statement has begun
            context.in_declaration, context.after_body = False, True
    else:
        context.in_declaration = context.after_body = False
    context.previous = kind
