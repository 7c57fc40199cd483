"""Tokens to syntax (docs/reference/flows.md#grammar).

What a text says, before names and labels are resolved.

What declarations say about tasks: aliases, default parameters, documentation, subflows
(docs/reference/flows.md#declarations).
"""

from collections.abc import Iterable, Iterator
from typing import Any, Final, TypeAlias

from lark import Lark, Token, Transformer, UnexpectedInput, UnexpectedToken
from lark.lexer import Lexer
from msgspec import Struct
from msgspec.structs import replace

from statewright.flows.lexer import InvalidFlow, Piece, Position, Rules, shorten, split, warn
from statewright.flows.literals import LiteralValue


class Label(Struct, frozen=True):
    """A label where it is used."""

    name: str
    position: Position


class TaskUse(Struct, frozen=True, kw_only=True):
    """A task that is invoked."""

    name: str
    position: Position
    parameters: LiteralValue | None = None


class ResourceUse(Struct, frozen=True, kw_only=True):
    """A resource that is read or written."""

    uri: str
    position: Position
    parameters: LiteralValue | None = None


class LiteralUse(Struct, frozen=True, kw_only=True):
    """A value that a statement begins with."""

    value: LiteralValue
    position: Position


class GuardUse(Struct, frozen=True):
    """An expression before a step."""

    expression: str
    position: Position


class SubflowUse(Struct, frozen=True, kw_only=True):
    """Statements in brackets."""

    statements: tuple["Statement", ...]
    position: Position


class Step(Struct, frozen=True, kw_only=True):
    """One step: a list of tasks (one: the task alone) or a subflow."""

    body: tuple[TaskUse, ...] | SubflowUse
    input: Label | None = None
    output: Label | None = None
    is_merged: bool = False
    is_iterated: bool = False
    guard: GuardUse | None = None


Source: TypeAlias = Label | ResourceUse | LiteralUse
Target: TypeAlias = Label | ResourceUse


class Statement(Struct, frozen=True, kw_only=True):
    """Steps in a row. Without a source it begins at the start of its scope, without a target it ends at the end."""

    steps: tuple[Step, ...]
    source: Source | None = None
    target: Target | None = None
    is_target_merged: bool = False


class Declaration(Struct, frozen=True, kw_only=True):
    """A declaration of the flow or of a task."""

    kind: str
    name: str
    position: Position
    alias: str | None = None
    parameters: LiteralValue | None = None
    doc: str | None = None
    subflow: SubflowUse | None = None


class Program(Struct, frozen=True):
    """A whole text."""

    declarations: tuple[Declaration, ...]
    statements: tuple[Statement, ...]
    warnings: tuple[str, ...] = ()


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


def parse(text: str, rules: Rules) -> Program:
    """The syntax of a text. Raises :class:`InvalidFlow` with the first defect."""
    pieces, warnings = split(text, rules)
    try:
        parsed = _PARSER.parse(pieces)
    except UnexpectedInput as defect:
        raise _describe(defect, pieces, text) from defect
    assert isinstance(parsed, Program)  # noqa: S101 - made by the transformer
    return replace(parsed, warnings=tuple(warnings))


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


class ResolvedTask(Struct, frozen=True, kw_only=True):
    """What a use of a task comes to: an invocation of ``base``, or a subflow in its place."""

    base: str
    parameters: LiteralValue
    doc: str | None
    subflow: SubflowUse | None = None
    chain: tuple[str, ...] = ()
    """The names on the way, the written one first."""


class Declarations:
    """The declarations of one text. Raises :class:`InvalidFlow` where they contradict each other."""

    def __init__(self, declared: tuple[Declaration, ...]) -> None:
        self.flow: Declaration | None = None
        self.warnings: list[str] = []
        self._tasks: dict[str, Declaration] = {}
        for one in declared:
            match one.kind:
                case "flow":
                    self._take_flow(one)
                case "task":
                    self._take_task(one)
                case kind:
                    raise InvalidFlow("DECLARATION", one.position, f"unknown declaration @{kind}", piece=f"@{kind}")

    def _take_flow(self, declared: Declaration) -> None:
        if self.flow is not None:
            raise InvalidFlow("DECLARATION", declared.position, "a second @flow", piece="@flow")
        if declared.alias is not None or declared.subflow is not None:
            reason = "@flow has neither an alias nor a subflow"
            raise InvalidFlow("DECLARATION", declared.position, reason, piece="@flow")
        self.flow = declared

    def _take_task(self, declared: Declaration) -> None:
        if declared.alias is not None and declared.subflow is not None:
            reason = f"task {declared.name} has both an alias and a subflow"
            raise InvalidFlow("DECLARATION", declared.position, reason, piece=declared.name)
        if declared.name in self._tasks:
            self.warnings.append(warn(declared.position, f"task {declared.name} is declared again; this one counts"))
        self._tasks[declared.name] = declared

    def resolve(self, use: TaskUse) -> ResolvedTask:
        """What the use of a task means. Raises :class:`InvalidFlow`."""
        name, chain, found = use.name, [use.name], []
        while (declared := self._tasks.get(name)) is not None:
            found.append(declared)
            if declared.alias is None:
                break
            name = declared.alias
            if name in chain:
                reason = f"the aliases of task {use.name} lead back to {name}"
                raise InvalidFlow("DECLARATION", declared.position, reason, piece=use.name)
            chain.append(name)
        doc = next((one.doc for one in found if one.doc is not None), None)
        last = found[-1] if found else None
        if last is not None and last.subflow is not None:
            return self._resolve_subflow(use, last, tuple(chain), doc)
        parameters: LiteralValue = {}
        for stronger in [one.parameters for one in reversed(found)] + [use.parameters]:
            parameters = _merge(parameters, stronger, use)
        return ResolvedTask(base=name, parameters=parameters, doc=doc, chain=tuple(chain))

    def _resolve_subflow(
        self, use: TaskUse, declared: Declaration, chain: tuple[str, ...], doc: str | None
    ) -> ResolvedTask:
        if use.parameters is not None:
            reason = f"task {use.name} is a subflow, which takes no parameters"
            raise InvalidFlow("PARAMETERS", use.position, reason, piece=use.name)
        return ResolvedTask(base=declared.name, parameters={}, doc=doc, subflow=declared.subflow, chain=chain)


def _merge(weaker: LiteralValue, stronger: LiteralValue | None, use: TaskUse) -> LiteralValue:
    if stronger is None:
        return weaker
    if not weaker:
        return stronger
    if isinstance(weaker, dict) and isinstance(stronger, dict):
        return {**weaker, **stronger}
    if isinstance(weaker, list) and isinstance(stronger, list):
        return stronger
    reason = f"parameters of task {use.name}: an object meets an array"
    raise InvalidFlow("PARAMETERS", use.position, reason, piece=use.name)
