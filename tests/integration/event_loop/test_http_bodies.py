"""No request holds the event loop for long, whatever large body it sends (docs/reference/entities.md#limits)."""

import json
from itertools import count
from typing import Final
from uuid import uuid4

import pytest

from tests.builders import a_workflow, automated, when
from tests.integration.event_loop.bodies import (
    DOCUMENTS,
    MAX_BODY,
    Body,
    a_condition,
    comparison,
    document,
    fill,
    new_item,
    record,
    repeat,
    xml,
    xml_attributes,
)
from tests.integration.event_loop.conftest import Door
from tests.integration.event_loop.watchdog import require_free_loop

CREATE: Final = "POST /entity/JSON/held/1"
SEARCH: Final = "POST /search/direct/sought/1"

REQUESTS: dict[str, tuple[str, Body]] = {
    "array": (CREATE, lambda: fill("[", record, "]")),
    "array-of-10000": (f"{CREATE}?transactionWindow=1000", lambda: repeat("[", '{"v":[1,2,3]}', "]", 14 * 10_000)),
    "collection-of-empty-items": ("POST /entity/JSON", lambda: repeat("[", '{"payload":""}', "]")),
    "collection": ("POST /entity/JSON", lambda: repeat("[", new_item({"v": [1] * 50_000}), "]")),
    "updates": ("PUT /entity/JSON", lambda: repeat("[", '{"id":"{}","payload":"{}"}', "]")),
    "xml": ("POST /entity/XML/held/1", xml),
    "xml-of-attributes": ("POST /entity/XML/held/1", lambda: xml_attributes(600_000)),
    "sample": ("POST /model/import/JSON/SAMPLE_DATA/other/1", lambda: document("different-names")),
    "sample-of-records": ("POST /model/import/JSON/SAMPLE_DATA/other/2", lambda: document("records")),
    "sample-of-many-fields": (
        "POST /model/import/JSON/SAMPLE_DATA/other/3",
        lambda: fill("{", lambda n: f'"k{n}":1', "}", 90_000),
    ),
    "sample-in-xml": ("POST /model/import/XML/SAMPLE_DATA/other/4", xml),
    "schema": (
        "POST /model/import/JSON/JSON_SCHEMA/other/5",
        lambda: fill('{"anyOf":[', lambda n: f'{{"properties":{{"k{n}":{{}}}}}}', "]}"),
    ),
    "schema-of-lost-keywords": (
        "POST /model/import/JSON/JSON_SCHEMA/other/6",
        lambda: repeat('{"anyOf":[', '{"type":"string","x":1}', "]}", MAX_BODY),
    ),
    "simple-view": (
        "POST /model/import/JSON/SIMPLE_VIEW/other/7",
        lambda: fill('{"$":{', lambda n: f'".k{n}":"INTEGER"', "}}", MAX_BODY),
    ),
    "validation": ("POST /model/validate/held/1", lambda: document("records")),
    "unique-keys": (
        "PUT /model/held-open/1/unique-keys",
        lambda: fill('{"uniqueKeys":[', lambda n: f'{{"id":"k{n}","fields":["$.v"]}}', "]}"),
    ),
    "workflows": (
        "POST /model/held-open/1/workflow/import",
        lambda: fill('{"workflows":[', lambda n: json.dumps(a_workflow(f"w{n}", New=[])), "]}", MAX_BODY),
    ),
    "workflow-of-a-large-criterion": (
        "POST /model/held-open/1/workflow/import",
        lambda: json.dumps(
            {"workflows": [a_workflow(New=[automated("GO", to="New", criterion=json.loads(a_condition()))])]}
        ).encode(),
    ),
    "condition": (SEARCH, lambda: a_condition().encode()),
    "condition-beyond-the-limit": (
        SEARCH,
        lambda: fill('{"type":"group","operator":"OR","conditions":[', comparison, "]}"),
    ),
    "condition-of-a-long-path": (
        SEARCH,
        lambda: json.dumps(when("$" + ".a" * 100_000, "EQUALS", 1)).encode(),
    ),
    "grouped-by-a-long-path": (
        "POST /entity/stats/sought/1/query",
        lambda: json.dumps({"groupBy": ["$" + ".a" * 100_000]}).encode(),
    ),
    "condition-explained": (f"{SEARCH}?explain=plan", lambda: a_condition().encode()),
    "condition-of-a-snapshot": ("POST /search/async/sought/1", lambda: a_condition().encode()),
    "long-operand": (SEARCH, lambda: fill('{"type":"array","jsonPath":"$.v","values":[', str, "]}")),
    "deletion": ("DELETE /entity/sought/1", lambda: a_condition().encode()),
    "grouped": (
        "POST /entity/stats/sought/1/query",
        lambda: f'{{"groupBy":["state"],"condition":{a_condition()}}}'.encode(),
    ),
    "grouped-by-no-condition": (
        "POST /entity/stats/sought/1/query",
        lambda: fill('{"groupBy":["state"],"condition":{"v":[', record, "]}}"),
    ),
    "message": ("POST /message/new/x", lambda: fill('{"payload":[', record, "]}", MAX_BODY)),
    "message-numbers": ("POST /message/new/x", lambda: fill('{"payload":[', record, ",1e9999]}")),
    "metadata": ("POST /message/new/x", lambda: fill('{"payload":1,"metaData":{"v":[', record, "]}}")),
    "message-ids": ("DELETE /message", lambda: repeat("[", '"7b6a2f0e-51b4-11ee-be56-0242ac120002"', "]")),
}

MERGE: Final = {"Content-Type": "application/merge-patch+json", "If-Match": "*"}
PATCH: Final = {"Content-Type": "application/json-patch+json", "If-Match": "*"}

PATCHES: dict[str, tuple[dict[str, str], Body]] = {
    "merge": (MERGE, lambda: document("numbers")),
    "merge-of-records": (MERGE, lambda: document("records")),
    "add": (PATCH, lambda: b'[{"op":"add","path":"/v/-","value":1}]'),
    "add-10000": (PATCH, lambda: repeat("[", '{"op":"add","path":"/v/0","value":1}', "]", 37 * 9_990)),
    "add-100000": (PATCH, lambda: repeat("[", '{"op":"add","path":"/v/0","value":1}', "]", 37 * 100_000)),
    "copy-40": (PATCH, lambda: repeat("[", '{"op":"copy","from":"/v","path":"/v/-"}', "]", 1840)),
    "deep-paths": (PATCH, lambda: repeat("[", f'{{"op":"test","path":"{"/v" * 250}","value":1}}', "]")),
}


@pytest.fixture(scope="module")
def large(door: Door) -> str:
    """An entity whose document is as large as it may be."""
    entity = door.api.create({"v": [1]}, model=door.api.a_model(model="large/1", sample={"v": [1]})).id
    status, answer = door.send(f"PUT /entity/JSON/{entity}", document("numbers"))
    assert status == 200, answer[:500]
    return entity


@pytest.mark.parametrize("name", DOCUMENTS)
def test_a_large_document_leaves_the_loop_free(name: str, door: Door) -> None:
    door.require_free(CREATE, document(name))


@pytest.mark.parametrize("name", ["numbers", "records", "different-names"])
def test_a_large_document_that_its_model_learns_leaves_the_loop_free(name: str, door: Door) -> None:
    model = f"grows-{name}-{uuid4().hex[:6]}/1"
    door.api.import_model(model, {"v": [json.loads(record(1))] if name == "records" else [1]})
    assert door.api.post(f"/model/{model}/changeLevel/STRUCTURAL").status_code == 200
    door.api.lock(model)
    door.require_free(f"POST /entity/JSON/{model}", document(name))


@pytest.mark.parametrize("name", REQUESTS)
def test_a_large_body_leaves_the_loop_free(name: str, door: Door) -> None:
    line, body = REQUESTS[name]
    door.require_free(line, body())


@pytest.mark.parametrize("name", PATCHES)
def test_patches_of_a_large_document_leave_the_loop_free(name: str, door: Door, large: str) -> None:
    headers, body = PATCHES[name]
    door.require_free(f"PATCH /entity/JSON/{large}", body(), headers)


def test_a_small_patch_that_doubles_a_small_document_leaves_the_loop_free(door: Door) -> None:
    model = door.api.a_model(model=f"doubled-{uuid4().hex[:6]}/1", sample={"v": [{"v": [1]}]})
    entity = door.api.create({"v": []}, model=model).id
    copies = repeat("[", '{"op":"copy","from":"/v","path":"/v/-"}', "]", 1024)
    door.require_free(f"PATCH /entity/JSON/{entity}", copies, PATCH)


def test_a_large_criterion_leaves_the_loop_free(door: Door) -> None:
    workflow = a_workflow(New=[automated("GO", to="Gone", criterion=json.loads(a_condition()))], Gone=[])
    versions = count(1)

    def judge_for_the_first_time() -> None:
        model = door.api.a_model(workflow, model=f"held-by-criterion/{next(versions)}", sample={"v": [1]})
        assert door.send(f"POST /entity/JSON/{model}", b'{"v":[1]}')[0] == 200

    require_free_loop(door.service.loop, judge_for_the_first_time)


@pytest.mark.parametrize("line", ["GET /entity/{entity}", "GET /entity/large/1"])
def test_reads_of_a_large_document_leave_the_loop_free(line: str, door: Door, large: str) -> None:
    door.require_free(line.format(entity=large))


def test_a_search_that_judges_a_large_document_leaves_the_loop_free(door: Door, large: str) -> None:
    door.require_free(
        "POST /search/direct/large/1", b'{"type":"simple","jsonPath":"$.v[*]","operatorType":"CONTAINS","value":"x"}'
    )


@pytest.mark.parametrize("converter", ["JSON_SCHEMA", "SIMPLE_VIEW"])
def test_an_export_of_a_large_model_leaves_the_loop_free(converter: str, door: Door) -> None:
    door.api.import_model("large-model/1", {f"k{n}": 1 for n in range(9_999)})
    door.require_free(f"GET /model/export/{converter}/large-model/1")
