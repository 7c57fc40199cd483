"""Failures and ids as pages write them (docs/console.md#how-values-are-written)."""

import pytest

from statewright.console.request import build_problem
from statewright.console.views.page import shorten_id
from tests.unit.console.recorded import a_reply


@pytest.mark.parametrize(
    ("detail", "shown"),
    [
        ("ENTITY_NOT_FOUND: entity id=7 not found", "Entity id=7 not found"),
        ("entity_not_found", ""),
        ("OTHER: it is of another kind", "OTHER: it is of another kind"),
        ("", ""),
    ],
)
def test_the_code_of_a_failure_is_not_told_twice(detail: str, shown: str):
    document = {"detail": detail, "properties": {"errorCode": "ENTITY_NOT_FOUND"}}
    problem = build_problem(a_reply(document, status=404))
    assert (problem.detail, problem.code) == (shown, "ENTITY_NOT_FOUND")


def test_ids_are_shortened_and_names_are_not():
    assert shorten_id("9b7cecc8-e6de-11f1-942e-c3ec85180d6f") == "9b7c…0d6f"
    assert shorten_id("JOB_TYPE payment") == "JOB_TYPE payment"
