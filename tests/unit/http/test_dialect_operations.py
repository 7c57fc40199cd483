"""The OpenAPI document has every operation of the dialect, under its name (docs/reference/service.md#openapi)."""

from pathlib import Path

import pytest

from statewright.api.http.dialects import ROUTES
from statewright.api.http.openapi import build_openapi_document

LINES = Path(__file__).with_name("dialect_operations.txt").read_text("utf-8").splitlines()
OPERATIONS = [[part.split() for part in line.split("|")] for line in LINES if not line.startswith("#")]
PATHS = build_openapi_document()["paths"]


@pytest.mark.parametrize("row", OPERATIONS, ids=lambda row: row[1][0])
def test_an_operation_of_the_dialect_has_its_name_and_its_answers(row: list[list[str]]):
    (method, path), [operation_id], statuses, *headers = row
    operation = PATHS[path][method.lower()]
    assert operation["operationId"] == operation_id
    assert set(statuses) <= set(operation["responses"])
    named = {parameter["name"] for parameter in operation["parameters"] if parameter["in"] == "header"}
    assert {name for names in headers for name in names} <= named


def test_every_operation_with_credentials_may_be_forbidden_or_fail_otherwise():
    bare = [route.id for route in ROUTES if not {"403", "default"} <= set(_describe(route.path, route.method))]
    assert bare == []


def test_a_message_demands_its_type_and_its_length():
    parameters = {one["name"]: one for one in PATHS["/message/new/{subject}"]["post"]["parameters"]}
    assert parameters["Content-Type"]["required"]
    assert parameters["Content-Length"]["required"]
    assert parameters["Content-Length"]["schema"]["format"] == "int64"


def _describe(path: str, method: str) -> dict[str, object]:
    responses: dict[str, object] = PATHS[path][method.lower()]["responses"]
    return responses
