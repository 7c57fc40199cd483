"""What operations on documents take of the event loop, by size, is no more than docs/reference/entities.md says
(docs/reference/entities.md#what-large-requests-cost-others).
"""

import json
from collections.abc import Callable, Mapping
from functools import cache, partial
from pathlib import Path
from typing import Final, TypeAlias
from uuid import uuid4

import pytest

from tests.builders import a_workflow, automated, manual, when
from tests.integration.event_loop.bodies import MAX_BODY, fill, record, repeat
from tests.integration.event_loop.conftest import Door
from tests.integration.event_loop.watchdog import require_free_loop
from tests.service import done, eventually

REFERENCE: Final = Path(__file__).parents[3] / "docs" / "reference" / "entities.md"

UNITS: Final = {"KiB": 1024, "MiB": 1024 * 1024}


@cache
def promised() -> dict[tuple[str, int], float]:
    """Seconds by operation and bytes of the document, as documented."""
    text = REFERENCE.read_text(encoding="utf-8")
    table = text[text.index("| The loop is held, in ms |") :].split("\n\n")[0]
    head, _, *rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()]
    sizes = [int(number) * UNITS[unit] for number, unit in (cell.split() for cell in head[1:])]
    return {(row[0], size): int(cell) / 1000 for row in rows for size, cell in zip(sizes, row[1:], strict=True)}


SIZES: Final = tuple(sorted({size for _, size in promised()}))

DOCUMENTS: Final[dict[str, Callable[[int], bytes]]] = {
    "decimals": lambda size: repeat('{"v":[', "7.5", "]}", size),
    "records": lambda size: fill('{"v":[', record, "]}", size),
    "fields": lambda size: fill('{"v":[', lambda n: f'{{"k{n % 9_000}":1.5}}', "]}", size),
    "deep": lambda size: repeat('{"v":[', "[" * 250 + "]" * 250, "]}", size),
    "text": lambda size: b'{"v":["' + b"x" * (size - 20) + b'"]}',
    "name": lambda size: b'{"v":[{"' + b"k" * (size - 20) + b'":1}]}',
}
"""Of the shapes that were tried, those that took longest at some operation and size."""

_ROOM: Final = 400

LARGEST: Final = ("records", "text")
"""Those that are also as large as a body may be: what the others cost grows no faster. Decimals of that size take twice
the processor time of records, in turns that are half as long.
"""

CASES: Final = [(shape, size) for size in SIZES for shape in DOCUMENTS if size < max(SIZES) or shape in LARGEST]


class Subject:
    """Models and an entity whose documents have one shape and size."""

    def __init__(self, door: Door, shape: str, size: int) -> None:
        self.door = door
        self.document = DOCUMENTS[shape](size - _ROOM)
        sample = self.document if shape == "name" else DOCUMENTS[shape](min(size - _ROOM, 160_000))
        self.model = self.add_model(sample)
        status, answer = door.send(f"POST /entity/JSON/{self.model}", self.document)
        assert status == 200, answer[:500]
        self.entity = json.loads(answer)[0]["entityIds"][0]

    def add_model(self, sample: bytes, level: str = "") -> str:
        """One with a criterion that looks at every value, and a transition to fire."""
        api, model = self.door.api, f"sized-{uuid4().hex[:8]}/1"
        assert self.door.send(f"POST /model/import/JSON/SAMPLE_DATA/{model}", sample)[0] == 200
        look = automated("LOOK", to="Found", criterion=when("$.v[*]", "EQUALS", "nowhere"))
        api.import_workflows(a_workflow(New=[look, manual("MOVE", to="New")], Found=[]), model=model)
        if level:
            done(api.post(f"/model/{model}/changeLevel/{level}"))
        api.lock(model)
        return model


Request: TypeAlias = tuple[int, str, bytes, Mapping[str, str]]
"""The status of the answer, method and path, body, headers."""

PATCH_HEADERS: Final = {"If-Match": "*", "Content-Type": "application/json-patch+json"}
MERGE_HEADERS: Final = {"If-Match": "*", "Content-Type": "application/merge-patch+json"}
BOOLEANS: Final = b'{"v":[true]}'

REQUESTS: Final[dict[str, Callable[[Subject], Request]]] = {
    "create": lambda of: (200, f"POST /entity/JSON/{of.model}", of.document, {}),
    "create that extends the model": lambda of: (
        200,
        f"POST /entity/JSON/{of.add_model(b'{}', 'STRUCTURAL')}",
        of.document,
        {},
    ),
    "create that is refused": lambda of: (400, f"POST /entity/JSON/{of.add_model(BOOLEANS)}", of.document, {}),
    "array of one": lambda of: (200, f"POST /entity/JSON/{of.model}", b"[" + of.document + b"]", {}),
    "replace": lambda of: (200, f"PUT /entity/JSON/{of.entity}", of.document, {}),
    "transition with a document": lambda of: (200, f"PUT /entity/JSON/{of.entity}/MOVE", of.document, {}),
    "merge patch": lambda of: (200, f"PATCH /entity/JSON/{of.entity}", of.document, MERGE_HEADERS),
    "JSON Patch": lambda of: (
        200,
        f"PATCH /entity/JSON/{of.entity}",
        b'[{"op":"move","from":"/v/0","path":"/v/0"}]',
        PATCH_HEADERS,
    ),
    "read": lambda of: (200, f"GET /entity/{of.entity}", b"", {}),
    "list": lambda of: (200, f"GET /entity/{of.model}?pageSize=1", b"", {}),
    "sample of a model": lambda of: (
        200,
        f"POST /model/import/JSON/SAMPLE_DATA/sample-{uuid4().hex[:8]}/1",
        of.document,
        {},
    ),
}


@pytest.mark.parametrize(("shape", "size"), CASES)
def test_no_operation_holds_the_loop_longer_than_documented(shape: str, size: int, door: Door) -> None:
    subject = Subject(door, shape, size)
    for operation in REQUESTS:
        work = partial(send, subject, operation)
        require_free_loop(door.service.loop, work, most_s=promised()[operation, size], name=operation)


def send(subject: Subject, operation: str) -> None:
    expected, *request = REQUESTS[operation](subject)
    status, answer = subject.door.send(*request)
    assert status == expected, (operation, answer[:500])


def test_a_timer_of_a_large_entity_holds_the_loop_no_longer_than_its_create(door: Door) -> None:
    model, large = f"timed-{uuid4().hex[:8]}/1", DOCUMENTS["records"](MAX_BODY - _ROOM)
    door.api.import_model(model, {"v": [json.loads(record(1))]})
    due = automated("FALL", to="Due", schedule={"delayMs": 1})
    door.api.import_workflows(a_workflow(New=[due], Due=[]), model=model)
    door.api.lock(model)

    def work() -> None:
        status, answer = door.send(f"POST /entity/JSON/{model}", large)
        assert status == 200, answer[:500]
        [entity] = json.loads(answer)[0]["entityIds"]
        eventually(lambda: b'"state":"Due"' in door.send(f"GET /entity/{entity}")[1])

    require_free_loop(door.service.loop, work, most_s=promised()["create", MAX_BODY])


MALFORMED: Final[dict[str, Callable[[int], bytes]]] = {
    "large exponents": lambda size: repeat('{"v":[', "1e6000", "]}", size),
    "large exponents, not closed": lambda size: repeat('{"v":[', "1e6000", ",", size),
    "exponents that are too large, last": lambda size: repeat('{"v":[', "1e6000", ",1e7000]}", size),
    "numbers, not closed": lambda size: repeat('{"v":[', "7.5", "", size),
    "records, a name repeated last": lambda size: fill('{"v":[', record, ',{"id":1,"id":2}]}', size),
}
"""Documents that are refused for their text."""


@pytest.mark.parametrize("shape", MALFORMED)
def test_a_malformed_document_holds_the_loop_no_longer(shape: str, door: Door) -> None:
    model = f"malformed-{uuid4().hex[:8]}/1"
    assert door.send(f"POST /model/import/JSON/SAMPLE_DATA/{model}", b'{"v":[1.5]}')[0] == 200
    door.api.lock(model)
    for size in SIZES:
        document = MALFORMED[shape](size - _ROOM)

        def be_refused(document: bytes = document) -> None:
            status, answer = door.send(f"POST /entity/JSON/{model}", document)
            assert status == 400, answer[:500]
            assert json.loads(answer)["properties"]["errorCode"] == "BAD_REQUEST", answer[:500]

        most_s = promised()["create that is refused", size]
        require_free_loop(door.service.loop, be_refused, most_s=most_s, name=f"{shape} of {size} bytes")


def test_the_table_is_about_what_is_measured() -> None:
    assert [*dict.fromkeys(operation for operation, _ in promised())] == [*REQUESTS]
    assert max(SIZES) == MAX_BODY
