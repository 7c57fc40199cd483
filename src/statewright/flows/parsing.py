"""Tokens to syntax (docs/reference/flows.md#grammar)."""

from collections.abc import Iterable, Iterator
from typing import Any, Final

from lark import Lark, Token, Transformer, UnexpectedInput, UnexpectedToken
from lark.lexer import Lexer

from statewright.flows.failures import InvalidFlow, Position, shorten
from statewright.flows.lexer import Piece, split
from statewright.flows.syntax import (
    Declaration,
    GuardUse,
    Label,
    LiteralUse,
    Program,
    ResourceUse,
    Statement,
    Step,
    SubflowUse,
    TaskUse,
)

GRAMMAR: Final = r"""
program: (declaration | statement)*

declaration: DECLARE NAME alias? PARAMS? DOC? subflow? SEMICOLON?
alias: EQUALS NAME

statement: (source ARROW)? step (ARROW step)* (ARROW destination)? SEMICOLON?
source: SOURCE | resource | LITERAL
destination: MERGED? (TARGET | resource)
step: INPUT? (STAR | MERGE)? guard? (tasks | subflow) OUTPUT?
guard: GUARD EXPR
tasks: task (BAR task)*
task: NAME PARAMS?
subflow: LBRACE statement+ RBRACE | LBRACKET statement+ RBRACKET
resource: URIREF PARAMS?

%declare ARROW DOC PARAMS LITERAL URIREF EXPR DECLARE NAME LBRACE RBRACE LBRACKET RBRACKET
%declare STAR BAR MERGE MERGED EQUALS GUARD SEMICOLON INPUT OUTPUT SOURCE TARGET
"""
"""LALR(1): labels and merge marks come with their roles (:mod:`statewright.flows.lexer`). Where an optional part could
also begin what follows, it is taken: so a subflow after a declaration belongs to it.
"""

_WORDS: Final = {
    "ARROW": "→",
    "DOC": "documentation",
    "PARAMS": "parameters",
    "LITERAL": "a literal",
    "URIREF": "a resource",
    "EXPR": "an expression in back quotes",
    "DECLARE": "a declaration",
    "NAME": "a task",
    "LBRACE": "{",
    "RBRACE": "}",
    "LBRACKET": "[",
    "RBRACKET": "]",
    "STAR": "*",
    "BAR": "|",
    "MERGE": ">",
    "MERGED": ">",
    "EQUALS": "=",
    "GUARD": "?",
    "SEMICOLON": ";",
    "INPUT": "a label",
    "OUTPUT": "a label",
    "SOURCE": "a label",
    "TARGET": "a label",
    "$END": "the end of the text",
}


class _PieceToken(Token):
    """A token of lark that knows what it was made of."""

    piece: Piece


class _Pieces(Lexer):
    """Hands the tokens to the parser."""

    def __init__(self, _: object) -> None:
        pass

    def lex(self, pieces: Iterable[Piece]) -> Iterator[Token]:  # type: ignore[override] # as lark calls a lexer of ours
        for piece in pieces:
            position = piece.position
            token = _PieceToken(piece.kind, piece.text, line=position.line, column=position.column)
            token.piece = piece  # pyright: ignore[reportAttributeAccessIssue] # lark says that it makes a Token
            yield token


def _at(token: Token) -> Position:
    return Position(token.line or 1, token.column or 1)


class _Builder(Transformer[Token, Program]):
    """Makes syntax of each rule as soon as it is complete, so that no tree is built and nothing recurses."""

    def program(self, parts: list[Any]) -> Program:
        return Program(
            tuple(part for part in parts if isinstance(part, Declaration)),
            tuple(part for part in parts if isinstance(part, Statement)),
        )

    def declaration(self, parts: list[Any]) -> Declaration:
        kind, name, *rest = parts
        found = {getattr(part, "type", "SUBFLOW"): part for part in rest}
        parameters = found.get("PARAMS")
        return Declaration(
            kind=str(kind),
            name=str(name),
            position=_at(kind),
            alias=None if "NAME" not in found else str(found["NAME"]),
            parameters=None if parameters is None else parameters.piece.value,
            doc=None if "DOC" not in found else str(found["DOC"]),
            subflow=found.get("SUBFLOW"),
        )

    def alias(self, parts: list[Any]) -> Token:
        name: Token = parts[1]
        return name

    def statement(self, parts: list[Any]) -> Statement:
        steps = tuple(part for part in parts if isinstance(part, Step))
        ends = {part[0]: part[1:] for part in parts if isinstance(part, tuple)}
        (source,) = ends.get("source", (None,))
        is_merged, target = ends.get("destination", (False, None))
        return Statement(steps=steps, source=source, target=target, is_target_merged=is_merged)

    def source(self, parts: list[Any]) -> tuple[Any, ...]:
        part = parts[0]
        if isinstance(part, ResourceUse):
            return ("source", part)
        if part.type == "LITERAL":
            return ("source", LiteralUse(value=part.piece.value, position=_at(part)))
        return ("source", Label(str(part), _at(part)))

    def destination(self, parts: list[Any]) -> tuple[Any, ...]:
        part = parts[-1]
        target = part if isinstance(part, ResourceUse) else Label(str(part), _at(part))
        return ("destination", len(parts) > 1, target)

    def step(self, parts: list[Any]) -> Step:
        found = {part.type: part for part in parts if isinstance(part, Token)}
        labels = {kind: Label(str(found[kind]), _at(found[kind])) for kind in ("INPUT", "OUTPUT") if kind in found}
        return Step(
            body=next(part for part in parts if isinstance(part, tuple | SubflowUse)),
            input=labels.get("INPUT"),
            output=labels.get("OUTPUT"),
            is_merged="MERGE" in found,
            is_iterated="STAR" in found,
            guard=next((part for part in parts if isinstance(part, GuardUse)), None),
        )

    def guard(self, parts: list[Any]) -> GuardUse:
        return GuardUse(str(parts[1]), _at(parts[1]))

    def tasks(self, parts: list[Any]) -> tuple[TaskUse, ...]:
        return tuple(part for part in parts if isinstance(part, TaskUse))

    def task(self, parts: list[Any]) -> TaskUse:
        return TaskUse(name=str(parts[0]), position=_at(parts[0]), parameters=_read_parameters(parts))

    def subflow(self, parts: list[Any]) -> SubflowUse:
        statements = tuple(part for part in parts if isinstance(part, Statement))
        return SubflowUse(statements=statements, position=_at(parts[0]))

    def resource(self, parts: list[Any]) -> ResourceUse:
        return ResourceUse(uri=str(parts[0]), position=_at(parts[0]), parameters=_read_parameters(parts))


def _read_parameters(parts: list[Any]) -> Any:
    return parts[1].piece.value if len(parts) > 1 else None


_PARSER: Final = Lark(GRAMMAR, start="program", parser="lalr", lexer=_Pieces, transformer=_Builder())


def parse(text: str) -> Program:
    """The syntax of a text. Raises :class:`InvalidFlow` with the first defect."""
    pieces = split(text)
    try:
        parsed = _PARSER.parse(pieces)
    except UnexpectedInput as defect:
        raise _describe(defect, pieces, text) from defect
    assert isinstance(parsed, Program)  # noqa: S101 - made by the transformer
    return parsed


def _describe(defect: UnexpectedInput, pieces: list[Piece], text: str) -> InvalidFlow:
    token = defect.token if isinstance(defect, UnexpectedToken) else None
    names = sorted(defect.accepts or defect.expected) if isinstance(defect, UnexpectedToken) else []
    expected = tuple(dict.fromkeys(_WORDS.get(name, name) for name in names))
    if token is None or token.type == "$END":
        lines = text.split("\n")
        position, found, piece = Position(len(lines), len(lines[-1]) + 1), "the end of the text", ""
    else:
        piece = str(token)
        word = _WORDS.get(str(token.type), str(token.type)).removeprefix("a ").removeprefix("an ")
        shown = " ".join(shorten(piece).split())
        position, found = _at(token), word if word == shown else f"{word} {shown}"
    reason = f"unexpected {found}; expected {', '.join(expected)}" if expected else f"unexpected {found}"
    return InvalidFlow("SYNTAX", position, reason, piece=piece, expected=expected)
