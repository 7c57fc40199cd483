"""The form of the condition builder loses nothing (docs/console.md#pages)."""

from html.parser import HTMLParser

import pytest

from statewright.console.conditions import build_nodes, read_condition, read_fields, write_condition
from statewright.console.frame import Renderer

TYPES = {"$.amount": ("DOUBLE",), "$.name": ("STRING",)}


class FormReader(HTMLParser):
    """What a browser sends of a form that nobody has touched."""

    def __init__(self) -> None:
        super().__init__()
        self.fields: dict[str, str] = {}
        self._area = ""
        self._select = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        if tag == "input":
            self.fields[given["name"]] = given.get("value", "")
        elif tag == "select":
            self._select = given["name"]
        elif tag == "option" and "selected" in dict(attrs):
            self.fields[self._select] = given.get("value", "…")
            self._needs_text = "value" not in given
        elif tag == "textarea":
            self._area = given["name"]
            self.fields[self._area] = ""

    def handle_data(self, data: str) -> None:
        if self._area:
            self.fields[self._area] += data.removeprefix("\n")
        elif self.fields.get(self._select) == "…":
            self.fields[self._select] = data

    def handle_endtag(self, tag: str) -> None:
        if tag == "textarea":
            self._area = ""


@pytest.mark.parametrize(
    "text",
    [
        '{"type":"simple","jsonPath":"$.amount","operatorType":"EQUALS","value":1.10}',
        '{"type":"simple","jsonPath":"$.amount","operatorType":"EQUALS","value":"1.10"}',
        '{"type":"simple","jsonPath":"$.amount","operatorType":"EQUALS"}',
        '{"type":"simple","jsonPath":"$.amount","operatorType":"IS_NULL"}',
        '{"type":"simple","jsonPath":"$.amount","operatorType":"IS_NULL","value":null}',
        '{"type":"simple","jsonPath":"$.unknown","operatorType":"LIKE","value":"\\"><script>"}',
        '{"type":"lifecycle","field":"state","operatorType":"EQUALS","value":"A\\tB"}',
        '{"type":"lifecycle","field":"creationDate","operatorType":"BETWEEN","value":["2031-01-01","2032-01-01"]}',
        '{"type":"function","function":{"name":"</textarea>","n":1e400}}',
        '{"type":"group","operator":"OR","conditions":[]}',
        (
            '{"type":"group","operator":"AND","conditions":[{"type":"group","operator":"OR","conditions":['
            '{"type":"simple","jsonPath":"$.name","operatorType":"CONTAINS","value":" x "},'
            '{"type":"array","jsonPath":"$.a","values":[1.0,null]}]}]}'
        ),
    ],
)
def test_a_form_that_nobody_touched_is_the_same_condition(text: str):
    condition = read_condition(text)
    template = '{% from "macros/builder.html" import builder %}{{ builder(node) }}'
    page = Renderer(lambda: 0)._environment.from_string(template).render(node=build_nodes(condition, TYPES))
    form = FormReader()
    form.feed(page)
    assert write_condition(read_fields(form.fields)) == text
