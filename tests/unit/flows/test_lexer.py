"""Tokens, and the values that literals denote."""

from decimal import Decimal

import pytest

from statewright.flows.errors import FlowError
from statewright.flows.lexer import Lexer, LiteralToken
from statewright.jsonval.values import JsonValue


def kinds(text: str) -> list[tuple[str, str]]:
    return [(token.type, str(token)) for token in Lexer(text).tokens()]


def value(text: str) -> JsonValue:
    [token] = Lexer(text).tokens()
    assert isinstance(token, LiteralToken)
    return token.literal


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("A->B", [("NAME", "A"), ("ARROW", "->"), ("NAME", "B")]),
        ("A- B", [("NAME", "A-"), ("NAME", "B")]),
        ("A:x", [("NAME", "A:x")]),
        ("A :x", [("NAME", "A"), ("LABEL", "x")]),
        ("aß", [("NAME", "aß")]),
        ("# A\nB#c", [("NAME", "B")]),
        ("'''a # b'''", [("DOC", "a # b")]),
        ('"""a\n\'\'\'"""', [("DOC", "a\n'''")]),
        ("< a.json >", [("URIREF", "a.json")]),
        ("`$.a # b`", [("EXPR", "$.a # b")]),
        ("@flow x", [("DECLARE", "flow"), ("NAME", "x")]),
        ("\ufeffA", [("NAME", "A")]),
    ],
)
def test_tokens(text: str, tokens: list[tuple[str, str]]) -> None:
    assert kinds(text) == tokens


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("()", {}),
        ("( )", {}),
        ("(--)", {}),
        ("(- -)", {}),
        ("({})", {}),
        ("([])", []),
        ("<>", {}),
        ("<-->", {}),
        ("<{}>", {}),
        ("<[]>", []),
        ('({"a":{"b":1}})', {"a": {"b": 1}}),
        ("([[1],[2]])", [[1], [2]]),
        ('<{"a":">"}>', {"a": ">"}),
        ("(- {start: 1, end: 10} -)", {"start": 1, "end": 10}),
        ("(-\n  start: 1\n  end: 10\n-)", {"start": 1, "end": 10}),
        ("(-\n    a: 1\n    b:\n      - x\n-)", {"a": 1, "b": ["x"]}),
        ("(- 1: x -)", {"1": "x"}),
        ("(- at: 2024-01-01 -)", {"at": "2024-01-01"}),
        ("(- a: yes -)", {"a": "yes"}),
        ("(- a: true -)", {"a": True}),
        ("(- [~, null, '', 'null', 007, +1.50, .5, 1e3, e3, .inf, 0x10, -, 1_000] -)", None),
        ("(- &x {a: 1} -)", {"a": 1}),
    ],
)
def test_literals(text: str, expected: JsonValue) -> None:
    if expected is None:
        expected = [
            None,
            None,
            "",
            "null",
            7,
            Decimal("1.50"),
            Decimal("0.5"),
            1000,
            "e3",
            ".inf",
            "0x10",
            "-",
            "1_000",
        ]
    assert value(text) == expected


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("(- 5 -)", "LITERAL"),
        ("(- a: [1 -)", "LITERAL"),
        ("(- a: 1", "LITERAL"),
        ("(- a: 1\n  a: 2 -)", "LITERAL"),
        ("(- !!python/object:os.system {} -)", "LITERAL"),
        ("(- {a: 1e99999} -)", "LITERAL"),
        ("([1] )", "LITERAL"),
        ("([NaN])", "LITERAL"),
        ('({"a":1,"a":2})', "LITERAL"),
        ("(" + "[" * 100_000, "LITERAL"),
        ("(- " + "[" * 100_000 + " -)", "LITERAL"),
        ("(a)", "SYNTAX"),
        ("<a b>", "SYNTAX"),
        ("< >", "SYNTAX"),
        ("<a", "SYNTAX"),
        (".", "SYNTAX"),
        ("'''", "SYNTAX"),
        ("`a", "SYNTAX"),
        ("1a", "SYNTAX"),
    ],
)
def test_what_is_no_token_is_refused(text: str, code: str) -> None:
    with pytest.raises(FlowError) as caught:
        kinds(text)
    assert caught.value.code == code


def test_aliases_cannot_blow_a_value_up() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 9)]
    bomb = "\n".join(lines)
    with pytest.raises(FlowError, match="more than 100000 values"):
        kinds(f"(-\n{bomb}\n-)")


def test_positions_count_characters() -> None:
    tokens = list(Lexer("a → b\n  → c").tokens())
    assert [(token.line, token.column) for token in tokens] == [(1, 1), (1, 3), (1, 5), (2, 3), (2, 5)]
