"""Where the values of a document stand in its text."""

import pytest

from statewright.playbooks.place import DocumentPosition, locate

TEXT = """\
metadata: {name: x, tags: [a, b]}
workflow:
- step: a
  next:
    arcs:
    - {step: b}
- &c
  step: c/d
  a/b: 1
"""


@pytest.mark.parametrize(
    ("path", "line", "column"),
    [
        ("", 1, 1),
        ("/metadata", 1, 1),
        ("/metadata/name", 1, 12),
        ("/metadata/tags/1", 1, 31),
        ("/workflow", 2, 1),
        ("/workflow/0", 3, 3),
        ("/workflow/0/next/arcs/0", 6, 7),
        ("/workflow/0/next/arcs/0/step", 6, 8),
        ("/workflow/0/next/arcs/0/when", 6, 7),
        ("/workflow/0/tool/kind", 3, 3),
        ("/workflow/1/a~1b", 9, 3),
        ("/nothing/at/all", 1, 1),
    ],
)
def test_a_value_stands_where_its_name_does(path: str, line: int, column: int) -> None:
    assert locate(TEXT, [path]) == {path: DocumentPosition(line, column)}


def test_json_is_located_too() -> None:
    assert locate('{"a":\n {"b": [1,\n 2]}}', ["/a/b/1"]) == {"/a/b/1": DocumentPosition(3, 2)}


def test_a_text_with_a_defect_is_located_up_to_it() -> None:
    assert locate("a: 1\nb: [", ["/a", "/c"]) == {"/a": DocumentPosition(1, 1), "/c": DocumentPosition(1, 1)}


@pytest.mark.parametrize("text", ["? [a]\n: 1\nb: 2", "? {a: 1}\n: 1\nb: 2"])
def test_names_that_are_no_text_lead_nowhere(text: str) -> None:
    assert set(locate(text, ["/b"])) == {"/b"}
