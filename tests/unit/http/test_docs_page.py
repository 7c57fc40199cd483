"""The page of the API and the files of its explorer (docs/reference/service.md#openapi)."""

import base64
import hashlib
import re
from html.parser import HTMLParser

from statewright.api.http.openapi import build_openapi_document, render_docs_page
from statewright.api.http.openapi.operations import TAGS
from statewright.api.http.openapi.page import EXPLORER_FILES, SCRIPT, START, STYLE

DOCUMENT = build_openapi_document()
PAGE = render_docs_page(DOCUMENT, '/a"pi').decode()


class Elements(HTMLParser):
    """The elements of a page with their attributes, and what stands in scripts."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        if self.found and self.found[-1][0] == "script" and data.strip():
            self.scripts.append(data)


def hash_content(content: bytes) -> str:
    return f"sha384-{base64.b64encode(hashlib.sha384(content).digest()).decode()}"


def test_the_files_of_others_are_those_that_were_pinned():
    for file in (SCRIPT, STYLE):
        assert file.sha384 is not None
        assert file.integrity == hash_content(file.read()), file.name


def test_the_page_loads_exactly_these_files_and_says_their_hashes():
    elements = Elements(PAGE).found
    loaded = {of.get("src") or of.get("href"): of.get("integrity") for tag, of in elements if tag in {"script", "link"}}
    assert loaded == {file.path: hash_content(file.read()) for file in EXPLORER_FILES}


def test_nothing_on_the_page_needs_more_than_its_policy_allows():
    page = Elements(PAGE)
    assert page.scripts == []
    assert not [name for _, attributes in page.found for name in attributes if name.startswith("on")]
    assert not re.findall(r"""(?:src|href)=["']?(?:https?:)?//""", PAGE)


def test_the_path_of_the_context_reaches_the_script_whatever_is_in_it():
    [start] = [of for tag, of in Elements(PAGE).found if tag == "script" and of.get("src") == START.path]
    assert start["data-context-path"] == '/a"pi'


def test_models_and_workflows_come_first():
    assert [tag["name"] for tag in DOCUMENT["tags"]][:3] == ["Models", "Workflows", "Entities"]
    headings = re.findall(r"<h2 id='[^']*'>([^<]*)</h2>", PAGE)
    assert headings[:3] == ["Models", "Workflows", "Entities"]
    assert headings[-1] == "Schemas"


def test_every_group_of_operations_is_described_and_has_some():
    used = {tag for path in DOCUMENT["paths"].values() for operation in path.values() for tag in operation["tags"]}
    assert used == set(TAGS)


def test_what_one_tries_first_works_with_the_examples_as_they_are():
    operation = DOCUMENT["paths"]["/model/import/{dataFormat}/{converter}/{entityName}/{modelVersion}"]["post"]
    examples = {parameter["name"]: parameter["example"] for parameter in operation["parameters"]}
    assert (examples["dataFormat"], examples["converter"]) == ("JSON", "SAMPLE_DATA")
