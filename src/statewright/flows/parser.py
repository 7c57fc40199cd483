"""From the text of a flow to its syntax tree."""

from collections.abc import Iterator
from typing import Any, Final

from lark import Lark, Token, Transformer, v_args
from lark.exceptions import UnexpectedToken
from lark.lexer import Lexer as LarkLexer

from statewright.flows.errors import FlowError, Position
from statewright.flows.lexer import Lexer, LiteralToken, position_of
from statewright.flows.roles import assign_roles
from statewright.flows.syntax import (
    Body,
    Declaration,
    Destination,
    Guard,
    Label,
    LiteralValue,
    Program,
    Resource,
    Statement,
    Step,
    Subflow,
    TaskList,
    TaskUse,
)

_GRAMMAR: Final = """
    program: (declaration | statement)*
    declaration: DECLARE NAME alias? PARAMS? DOC? task_subflow? SEMICOLON?
    alias: EQUALS NAME
    task_subflow: DECLARED_LBRACE statement+ RBRACE
                    | DECLARED_LBRACKET statement+ RBRACKET
    statement: (chain | route) SEMICOLON?
    chain: source ARROW step
         | step
         | chain ARROW step
    route: chain ARROW destination
    source: SOURCE_LABEL | resource | LITERAL
    destination: MERGE_INTO? (TARGET_LABEL | resource)
    step: INPUT_LABEL? (STAR | MERGE)? guard? (tasks | subflow) OUTPUT_LABEL?
    guard: QUESTION EXPR
    tasks: task (BAR task)*
    task: NAME PARAMS?
    subflow: LBRACE statement+ RBRACE
           | LBRACKET statement+ RBRACKET
    resource: URIREF PARAMS?

    %declare DECLARE NAME PARAMS DOC EQUALS SEMICOLON ARROW SOURCE_LABEL INPUT_LABEL OUTPUT_LABEL TARGET_LABEL
    %declare LITERAL URIREF MERGE_INTO MERGE STAR QUESTION EXPR BAR
    %declare LBRACE RBRACE LBRACKET RBRACKET DECLARED_LBRACE DECLARED_LBRACKET
"""

_NAMES: Final = {
    "ARROW": "→",
    "SEMICOLON": ";",
    "NAME": "a name",
    "PARAMS": "parameters",
    "DOC": "documentation",
    "EQUALS": "=",
    "SOURCE_LABEL": "a label",
    "INPUT_LABEL": "a label",
    "OUTPUT_LABEL": "a label",
    "TARGET_LABEL": "a label",
    "LITERAL": "a literal",
    "URIREF": "a resource",
    "MERGE_INTO": ">",
    "MERGE": ">",
    "STAR": "*",
    "QUESTION": "?",
    "EXPR": "an expression in back quotes",
    "BAR": "|",
    "LBRACE": "{",
    "RBRACE": "}",
    "LBRACKET": "[",
    "RBRACKET": "]",
    "DECLARED_LBRACE": "{",
    "DECLARED_LBRACKET": "[",
    "DECLARE": "a declaration",
    "$END": "the end of the text",
}

MAX_SHOWN_CHARACTERS: Final = 40


def parse(text: str) -> Program:
    """The syntax tree of a text. Raises :class:`FlowError`."""
    lexer = Lexer(text)
    try:
        program: Any = _PARSER.parse(lexer)
    except UnexpectedToken as unexpected:
        raise _explain(unexpected, lexer.position) from None
    assert isinstance(program, Program)  # noqa: S101 - what the rule of the whole text makes
    if not program.statements:
        raise FlowError("NO_STATEMENTS", Position(1, 1), "The workflow contains no flows.")
    return program


class _TokenSource(LarkLexer):
    """Gives lark the tokens that our lexer finds."""

    def __init__(self, lexer_conf: object) -> None:
        del lexer_conf

    def lex(self, data: Lexer) -> Iterator[Token]:  # type: ignore[override]  # the parser passes on what it was given
        return assign_roles(data.tokens())


def _explain(unexpected: UnexpectedToken, end: Position) -> FlowError:
    token: Token = unexpected.token
    expected = list(dict.fromkeys(_NAMES[kind] for kind in _NAMES if kind in unexpected.expected))
    if token.type == "$END":
        return FlowError("SYNTAX", end, f"found the end of the text, expected {_list(expected)}")
    shown = str(token) if len(token) <= MAX_SHOWN_CHARACTERS else f"{token[:MAX_SHOWN_CHARACTERS]}…"
    prefix = {"LABEL": ":", "DECLARE": "@"}.get(token.type.rpartition("_")[2], "")
    return FlowError("SYNTAX", position_of(token), f"found {prefix}{shown}, expected {_list(expected)}")


def _list(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} or {names[-1]}"


@v_args(inline=True)
class _TreeBuilder(Transformer[Token, Program]):
    """Makes our nodes of lark's."""

    def program(self, *items: Any) -> Program:  # Any: what lark hands over has no type it could know
        return Program(
            tuple(item for item in items if isinstance(item, Declaration)),
            tuple(item for item in items if isinstance(item, Statement)),
        )

    def declaration(self, kind: Token, name: Token, *rest: Any) -> Declaration:
        tokens = {item.type: item for item in rest if isinstance(item, Token)}
        parameters = tokens.get("PARAMS")
        return Declaration(
            kind=str(kind),
            name=str(name),
            position=position_of(kind),
            alias=next((item for item in rest if type(item) is str), None),
            parameters=_value_of(parameters) if parameters is not None else None,
            doc=str(tokens["DOC"]) if "DOC" in tokens else None,
            subflow=next((item for item in rest if isinstance(item, Subflow)), None),
        )

    def alias(self, _equals: Token, name: Token) -> str:
        return "".join(name)

    def task_subflow(self, opening: Token, *rest: Any) -> Subflow:
        return Subflow(tuple(rest[:-1]), position_of(opening), position_of(rest[-1]))

    subflow = task_subflow

    def statement(self, chain: Any, _semicolon: Token | None = None) -> Statement:
        source, steps, destination = chain
        return Statement(source, tuple(steps), destination)

    def chain(self, *parts: Any) -> Any:
        first, last = parts[0], parts[-1]
        if isinstance(first, tuple):  # a chain that goes on
            first[1].append(last)
            return first
        return (first if len(parts) > 1 else None), [last], None

    def route(self, chain: Any, _arrow: Token, destination: Destination) -> Any:
        return chain[0], chain[1], destination

    def source(self, source: Any) -> Label | Resource | LiteralValue:
        if not isinstance(source, Token):
            return source  # type: ignore[no-any-return]
        if source.type == "LITERAL":
            return LiteralValue(_value_of(source), position_of(source))
        return _label_of(source)

    def destination(self, *parts: Any) -> Destination:
        target = parts[-1]
        return Destination(_label_of(target) if isinstance(target, Token) else target, merge=len(parts) > 1)

    def step(self, *parts: Any) -> Step:
        tokens = {part.type: part for part in parts if isinstance(part, Token)}
        body: Body = next(part for part in parts if isinstance(part, TaskUse | TaskList | Subflow))
        return Step(
            body=body,
            input_label=_label_of(tokens["INPUT_LABEL"]) if "INPUT_LABEL" in tokens else None,
            mark="*" if "STAR" in tokens else ">" if "MERGE" in tokens else None,
            guard=next((part for part in parts if isinstance(part, Guard)), None),
            output_label=_label_of(tokens["OUTPUT_LABEL"]) if "OUTPUT_LABEL" in tokens else None,
        )

    def guard(self, question: Token, expression: Token) -> Guard:
        del question
        return Guard(str(expression), position_of(expression))

    def tasks(self, *parts: Any) -> TaskUse | TaskList:
        tasks = tuple(part for part in parts if isinstance(part, TaskUse))
        return tasks[0] if len(tasks) == 1 else TaskList(tasks)

    def task(self, name: Token, parameters: Token | None = None) -> TaskUse:
        return TaskUse(str(name), None if parameters is None else _value_of(parameters), position_of(name))

    def resource(self, uri: Token, parameters: Token | None = None) -> Resource:
        return Resource(str(uri), None if parameters is None else _value_of(parameters), position_of(uri))


def _label_of(token: Token) -> Label:
    return Label(str(token), position_of(token))


def _value_of(token: Token) -> Any:
    assert isinstance(token, LiteralToken)  # noqa: S101 - the lexer makes no other
    return token.literal


_PARSER: Final = Lark(_GRAMMAR, start="program", parser="lalr", lexer=_TokenSource, transformer=_TreeBuilder())
"""With its transformer built in, since the tree of a long chain is too deep to be walked afterwards."""
