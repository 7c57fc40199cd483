"""The ten recipes of docs/guides/operating.md do what the page says, against the installed program."""

import os
from collections.abc import Callable, Iterator

import pytest

from tests.e2e.program import EXECUTABLE, started
from tests.e2e.test_guides import blocks, run

RECIPES: dict[int, list[str]] = {
    1: ["WAITS_FOR_CRITERION", "130.5", "REJECT"],
    2: ["printer", "1"],
    3: ["NO_COMPUTE_MEMBER_FOR_TAG", "RUN_FAILED", "order/1 PAY charge"],
    4: ["transactionId", "PAID"],
    5: ["SUSPENDED", "audit under way", "order/1 REJECT", "resumed"],
    6: ['{"jobs":[]}', "resumed", '"jobType":"printer"'],
    7: ["PAID", "/total"],
    8: ["DONE"],
    9: ["bank"],
    10: ["incident.retry", "suspend", "resume", "audit under way"],
}
"""What each of them prints, among other things."""


@pytest.fixture(scope="module")
def follow(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], str]]:
    """Runs scripts of the page, one after the other, beside one started program."""
    home = tmp_path_factory.mktemp("operating")
    path = f"{EXECUTABLE.parent}:{os.environ['PATH']}"
    with started(home, DATA_DIRECTORY=str(home / "data")) as program:
        address = f"http://127.0.0.1:{program.ready().ports['HTTP']}"
        yield lambda script: run(
            script.replace("http://localhost:8080", address), home, PATH=path, STATEWRIGHT_URL=address, COLUMNS="200"
        )
        assert program.terminate() == 0


def test_the_ten_recipes_print_what_the_page_says(follow: Callable[[str], str]) -> None:
    preparation, *recipes = blocks("guides/operating.md")
    assert len(recipes) == len(RECIPES) == 10
    follow(preparation)
    for number, recipe in enumerate(recipes, 1):
        told = follow(recipe)
        assert [each for each in RECIPES[number] if each not in told] == [], f"recipe {number}: {told}"
