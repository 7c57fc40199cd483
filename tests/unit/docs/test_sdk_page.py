"""The examples of docs/sdk.md do what the page says."""

import inspect
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

PAGE = Path(__file__).parents[3] / "docs" / "sdk.md"


def definitions() -> dict[str, Any]:
    """Everything that the Python blocks of the page define, run one after the other."""
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    names: dict[str, Any] = {"__name__": "sdk_page"}
    exec(compile("\n".join(blocks), str(PAGE), "exec"), names)
    return names


EXAMPLES = {
    name: value
    for name, value in definitions().items()
    if name.startswith("test_") and not inspect.signature(value).parameters
}
"""Those that need no service; tests/e2e/test_run_service.py has the other."""


@pytest.mark.parametrize("example", EXAMPLES.values(), ids=EXAMPLES)
def test_the_examples_of_the_page_pass(example: Callable[[], None]) -> None:
    example()


def test_the_page_names_every_operation_that_tests_can_use() -> None:
    from statewright.sdk.testing.handlers import HANDLERS

    assert {name for name in HANDLERS if f"`{name}(" not in PAGE.read_text()} == set()
