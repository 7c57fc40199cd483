"""Taking values at JSON Pointers from another document (docs/reference/operations.md#restoring-a-version)."""

import pytest

from statewright.jsonval.patches import PatchFailed, take_values
from tests.builders import Json

NOW: Json = {"a": 1, "lines": [{"sku": "x"}, {"sku": "y"}], "only": {"now": True}}
THEN: Json = {"a": 2, "lines": [{"sku": "z", "qty": 3}], "b": [1]}


@pytest.mark.parametrize(
    ("pointers", "taken"),
    [
        ([], NOW),
        ([""], THEN),
        (["/a"], NOW | {"a": 2}),
        (["/b"], NOW | {"b": [1]}),
        (["/only"], {"a": 1, "lines": NOW["lines"]}),
        (["/only/now"], NOW | {"only": {}}),
        (["/lines/0/qty"], NOW | {"lines": [{"sku": "x", "qty": 3}, {"sku": "y"}]}),
        (["/lines/1"], NOW | {"lines": [{"sku": "x"}]}),
        (["/lines", "/lines/0/sku"], NOW | {"lines": THEN["lines"]}),
        (["/nowhere"], NOW),
        (["/nowhere/else"], NOW),
    ],
)
def test_a_document_takes_what_another_has_at_the_pointers(pointers: list[str], taken: Json) -> None:
    assert take_values(NOW, THEN, pointers) == taken
    assert (NOW["a"], THEN["a"], len(NOW["lines"]), len(THEN["lines"])) == (1, 2, 2, 1)


@pytest.mark.parametrize("pointer", ["a", "/b/0", "/~2"])
def test_a_pointer_whose_place_is_not_there_is_refused(pointer: str) -> None:
    with pytest.raises(PatchFailed, match="path 1"):
        take_values(NOW, THEN, ["/a", pointer])
