"""Functions are verbs (docs/glossary.md): those named by their results are listed here, and the list only shrinks.
Constants are written in one way.
"""

from pathlib import Path

import pytest

from scripts.measure_code import is_participle, list_open_constants, list_participles

ROOT = Path(__file__).resolve().parents[2]

TOLERATED = {
    "grpc_h2/context.py::CallContext.cancelled",  # grpc.aio's names
    "grpc_h2/context.py::CallContext.done",
}
"""``path::qualified name`` of what may stay: names that an outside protocol asks for, with no better word."""


@pytest.mark.parametrize("name", ["committed", "_shown", "kept_for", "begun", "_required"])
def test_a_name_that_tells_a_result_is_recognised(name: str) -> None:
    assert is_participle(name)


@pytest.mark.parametrize(
    "name", ["commit", "read", "set_state", "feed", "_seed_random", "proceed", "unscaled_and_scale"]
)
def test_a_verb_is_not_taken_for_a_participle(name: str) -> None:
    assert not is_participle(name)


def test_no_function_is_named_by_its_result() -> None:
    assert set(list_participles(ROOT)) <= TOLERATED


def test_what_is_tolerated_still_exists() -> None:
    assert set(list_participles(ROOT)) >= TOLERATED


def test_constants_are_final() -> None:
    assert list_open_constants(ROOT) == []
