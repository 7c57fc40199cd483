"""Whatever an author of a condition, expression, template or guard has computed has a cost, which is charged before the
work is done: none of it holds up the event loop.
"""

import pkgutil
from collections.abc import Iterator, Mapping
from importlib import import_module

import pytest

from statewright.evaluation.costs import Entry
from statewright.loop.turns import MAX_TURN_ELEMENTS
from tests.evaluators import EVALUATORS, Evaluator
from tests.hostile_documents import MAX_S_PER_STEP, MAX_UNCHARGED_S

MAX_TURN_S = 2 * MAX_TURN_ELEMENTS * MAX_S_PER_STEP + MAX_UNCHARGED_S
"""What a turn is charged for, on a slow and busy machine, and what may be done beside."""


def iterate_entries(package: str) -> Iterator[tuple[str, Entry]]:
    """The entries in all tables of a package, with where they stand."""
    root = import_module(package)
    for found in pkgutil.walk_packages(root.__path__, f"{package}."):
        for name, value in vars(import_module(found.name)).items():
            yield from iterate_table(f"{found.name}.{name}", value)


def iterate_table(place: str, value: object) -> Iterator[tuple[str, Entry]]:
    if isinstance(value, Entry):
        yield place, value
    elif isinstance(value, Mapping):
        for name, member in value.items():
            yield from iterate_table(f"{place}[{name!r}]", member)


@pytest.mark.parametrize("evaluator", EVALUATORS.values(), ids=EVALUATORS)
def test_every_entry_has_a_cost_and_worst_inputs(evaluator: Evaluator[object]):
    assert set(evaluator.entries) == set(evaluator.worst)
    assert all(isinstance(entry, Entry) and callable(entry.cost) for entry in evaluator.entries.values())
    assert all(evaluator.worst.values())


@pytest.mark.parametrize("language", [name for name, evaluator in EVALUATORS.items() if evaluator.packages])
def test_no_table_of_a_language_is_left_out(language: str):
    known = {id(entry) for entry in EVALUATORS[language].entries.values()}
    (package,) = EVALUATORS[language].packages
    entries = dict(iterate_entries(package))
    assert entries
    assert {place for place, entry in entries.items() if id(entry) not in known} == set()


@pytest.mark.parametrize(
    ("language", "name"), [(language, name) for language, evaluator in EVALUATORS.items() for name in evaluator.entries]
)
def test_a_turn_ends_soon_whatever_is_computed(language: str, name: str):
    assert EVALUATORS[language].find_slow(name, MAX_TURN_S) == {}
