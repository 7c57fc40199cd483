"""Those who write conditions, the console and the SDK, know the operators of the language: none is missing, none is
another's. They import nothing of it, so the lists are compared here (docs/architecture.md#where-things-go).
"""

import inspect
from collections.abc import Callable, Iterator
from itertools import product
from typing import get_args

from statewright.conditions import syntax, templates, texts
from statewright.console import conditions as console
from statewright.sdk import conditions as sdk


def test_the_console_has_every_operator_among_its_kind() -> None:
    assert set(console.COMPARISONS) == set(syntax.COMPARISONS)
    assert set(console.RANGES) == set(syntax.RANGES)
    assert set(console.TEXTS) == set(syntax.TEXT_OPERATORS)
    assert set(console.PRESENCE) == set(syntax.PRESENCE)
    assert sorted(console.OPERATORS) == list(syntax.OPERATORS)


def test_the_methods_of_the_sdk_write_every_operator() -> None:
    written = [operator for method in list_methods() for operator in write_operators(method)]
    assert sorted(written) == list(syntax.OPERATORS)


def test_an_operator_without_operand_is_written_without_one() -> None:
    bare = [method().document for method in list_methods() if not inspect.signature(method).parameters]
    assert {each["operatorType"] for each in bare} == set(syntax.PRESENCE)
    assert not any("value" in each for each in bare)


def test_every_operator_on_texts_has_a_test() -> None:
    assert set(texts.TEXT_TESTS) == set(syntax.TextOperator)
    assert set(syntax.TEXT_OPERATORS) >= templates.TEXT_TESTS


def test_the_metadata_fields_of_both_are_those_of_the_language() -> None:
    older_name = {"previousTransition"}
    assert set(console.LIFECYCLE_FIELDS) == set(syntax.META_FIELDS) - older_name
    assert set(get_args(sdk.LifecycleField)) == set(syntax.META_FIELDS) - older_name
    assert set(console.LIFECYCLE_TIMES) == {name for name, field in syntax.META_FIELDS.items() if field.is_time}


def list_methods() -> list[Callable[..., sdk.Condition]]:
    """All that a field can be asked."""
    methods = inspect.getmembers(sdk.field("$.v"), inspect.ismethod)
    return [method for name, method in methods if not name.startswith("_")]


def write_operators(method: Callable[..., sdk.Condition]) -> Iterator[str]:
    """The operators that a method writes, with its options on and off."""
    parameters = inspect.signature(method).parameters.values()
    operands = ["x" for each in parameters if each.kind is not each.KEYWORD_ONLY]
    options = [each.name for each in parameters if each.kind is each.KEYWORD_ONLY]
    for chosen in product((False, True), repeat=len(options)):
        condition = method(*operands, **dict(zip(options, chosen, strict=True)))
        yield str(condition.document["operatorType"])
