"""Reading the reference pages: requests and answers in order, and the JSON that stands for itself.

A paragraph that is nothing but `METHOD /path` (with `Header: value` after it, if need be) is a request; one that is
nothing but a status is what is answered. The JSON blocks under them are their bodies.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path

from tests.builders import Json

ROOT = Path(__file__).parents[3]

BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
REQUEST = re.compile(r"`(GET|POST|PUT|PATCH|DELETE) (/[^`]*)`((?:[^`]*`[A-Za-z-]+: [^`]*`)*)[.:]?")
HEADER = re.compile(r"`([A-Za-z-]+): ([^`]*)`")
STATUS = re.compile(r"`([1-5]\d\d)`[.:]?")


@dataclass
class Exchange:
    """A request and the answer that the page promises; ``answers`` are the lines of an answer that has several."""

    method: str
    path: str
    headers: dict[str, str]
    body: str = ""
    status: int = 0
    answers: list[Json] = field(default_factory=list)


@dataclass
class Page:
    """What a page has to be held to."""

    exchanges: list[Exchange]
    others: list[Json]
    python: list[str]


def read(name: str) -> Page:
    """The page of that name in docs/reference."""
    page = Page([], [], [])
    text = (ROOT / "docs" / "reference" / name).read_text()
    wants_body, answers = False, False
    for language, part in _parts(text):
        if language == "json" and answers:
            page.exchanges[-1].answers.append(_json(part))
        elif language in {"json", "xml"} and wants_body:
            page.exchanges[-1].body, wants_body = part, False
        elif language == "json":
            page.others.append(_json(part))
        elif language == "python":
            page.python.append(part)
        elif language == "" and (request := REQUEST.fullmatch(part)):
            headers = dict(HEADER.findall(request[3]))
            page.exchanges.append(Exchange(request[1], request[2], headers))
            wants_body, answers = True, False
        elif language == "" and (status := STATUS.fullmatch(part)):
            page.exchanges[-1].status = int(status[1])
            wants_body, answers = False, True
        else:
            wants_body, answers = False, False
    return page


def _parts(text: str) -> Iterator[tuple[str, str]]:
    """Blocks with their language, and the paragraphs between them with none."""
    position = 0
    for block in BLOCK.finditer(text):
        yield from (("", each) for each in _paragraphs(text[position : block.start()]))
        yield block[1], block[2].strip()
        position = block.end()
    yield from (("", each) for each in _paragraphs(text[position:]))


def _paragraphs(text: str) -> list[str]:
    return [" ".join(each.split()) for each in re.split(r"\n\s*\n", text) if each.strip()]


def _json(text: str) -> Json:
    return json.loads(text, parse_float=Decimal)
