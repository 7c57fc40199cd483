"""Texts of SQL: statements apart, and parameters by number (docs/guides/tools.md#sql)."""

from typing import Any

import pytest

from statewright.tools.sql import read_statements
from statewright.tools.tasks import Unfit


@pytest.mark.parametrize(
    ("text", "statements"),
    [
        ("select 1", ["select 1"]),
        ("select 1; select 2;", ["select 1", "select 2"]),
        ("select ';'; -- a; b\n select 2", ["select ';'", "-- a; b\n select 2"]),
        ("/* ; */ select \"a;b\", 'it''s;'", ["/* ; */ select \"a;b\", 'it''s;'"]),
        ("do $x$ begin; end $x$; select $$;$$", ["do $x$ begin; end $x$", "select $$;$$"]),
        ("select 1; -- nothing else;", ["select 1"]),
    ],
)
def test_statements_end_at_semicolons_outside_of_quotes_and_comments(text: str, statements: list[str]) -> None:
    assert [one.text for one in read_statements({"command": text})] == statements


@pytest.mark.parametrize(
    ("text", "params", "bound", "values"),
    [
        ("a = :a and b = :b and c = :a", {"a": 1, "b": "x"}, "a = $1 and b = $2 and c = $1", (1, "x")),
        ("a = %(a)s", {"a": None}, "a = $1", (None,)),
        ("a = $a", {"a": [1]}, "a = $1", ([1],)),
        ("a = $2 and b = $1", ["x", "y"], "a = $1 and b = $2", ("y", "x")),
        ("a = %s and b = %s", [1, 2], "a = $1 and b = $2", (1, 2)),
        ("a = ? and b = '?'", [1], "a = $1 and b = '?'", (1,)),
        ("a::text = ':a' and b[1:2] = :a", {"a": 1}, "a::text = ':a' and b[1:2] = $1", (1,)),
        ("a = :a and b = %s", None, "a = :a and b = %s", ()),
    ],
)
def test_parameters_are_bound_by_number(text: str, params: Any, bound: str, values: tuple[Any, ...]) -> None:
    [statement] = read_statements({"query": text, "params": params})
    assert (statement.text, statement.values) == (bound, values)


def test_each_statement_has_the_parameters_that_it_names() -> None:
    found = read_statements({"commands": ["select :b; select :a", "select :c"], "params": {"a": 1, "b": 2, "c": 3}})
    assert [(one.text, one.values) for one in found] == [("select $1", (2,)), ("select $1", (1,)), ("select $1", (3,))]


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({}, "command"),
        ({"command": 7}, "command"),
        ({"commands": ["select 1", 2]}, "commands"),
        ({"command": "-- nothing"}, "command must have a statement"),
        ({"command": "select :a", "params": {}}, "params has no a"),
        ({"command": "select %s, %s", "params": [1]}, "params has no 2"),
        ({"command": "select 1", "params": "x"}, "params"),
    ],
)
def test_what_is_no_task_names_the_field(fields: Any, named: str) -> None:
    with pytest.raises(Unfit, match=named) as unfit:
        read_statements(fields)
    assert unfit.value.failure.code == "BAD_FIELDS"
