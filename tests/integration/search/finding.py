"""Searching as a client does."""

import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

import httpx

from tests.builders import Json
from tests.service import Api, Saved

PARCEL: Mapping[str, Json] = {
    "name": "a",
    "weight": 12.5,
    "count": 3,
    "fragile": True,
    "sent": "2031-05-06",
    "scanned": "2031-05-06T06:00:00Z",
    "note": None,
    "buyer": {"name": "Ann", "city": "Oslo"},
    "lines": [{"sku": "A1", "quantity": 2}],
    "tags": ["red", "green"],
}
"""A document whose model has a field of every kind."""

EVERYTHING = {"type": "group", "operator": "AND", "conditions": []}
NOTHING = {"type": "group", "operator": "OR", "conditions": []}

PATH = "/search/direct/parcel/1"


def a_parcel_model(api: Api) -> None:
    """The model of :data:`PARCEL`, locked; ``free`` may hold a number or a text, ``blob`` was only ever null."""
    api.import_model("parcel/1", {**PARCEL, "free": 1})
    api.a_model(model="parcel/1", sample={**PARCEL, "free": "text", "blob": None})


def parcels(api: Api, *documents: Json) -> list[Saved]:
    """Created in order; each is :data:`PARCEL` but for the members given, of which ``...`` are left out."""
    return [api.create(_present({**PARCEL, **document}), model="parcel/1") for document in documents]


def _present(document: Json) -> Json:
    return {name: value for name, value in document.items() if value is not ...}


def simple(path: str, operator: str, value: Json = None) -> Json:
    return {"type": "simple", "jsonPath": path, "operatorType": operator, "value": value}


def lifecycle(field: str, operator: str, value: Json = None) -> Json:
    return {"type": "lifecycle", "field": field, "operatorType": operator, "value": value}


def array(path: str, *values: Json) -> Json:
    return {"type": "array", "jsonPath": path, "values": list(values)}


def all_of(*conditions: Json) -> Json:
    return {"type": "group", "operator": "AND", "conditions": list(conditions)}


def any_of(*conditions: Json) -> Json:
    return {"type": "group", "operator": "OR", "conditions": list(conditions)}


def asked(
    api: Api, condition: Json, *, path: str = PATH, headers: Mapping[str, str] = {}, **query: Any
) -> httpx.Response:
    """The response to a direct search; a list as a query parameter repeats it."""
    pairs = [
        (name, value) for name, given in query.items() for value in (given if isinstance(given, list) else [given])
    ]
    text = "&".join(f"{name}={quote(str(value))}" for name, value in pairs)
    return api.post(f"{path}?{text}" if text else path, condition, **headers)


def envelopes(api: Api, condition: Json, **query: Any) -> list[Json]:
    """The lines of a direct search that must succeed."""
    response = asked(api, condition, **query)
    assert response.status_code == 200, response.text
    assert response.headers["content-type"] == "application/x-ndjson"
    assert response.text == "" or response.text.endswith("\n")
    return [json.loads(line) for line in response.text.splitlines()]


def found(api: Api, condition: Json, **query: Any) -> list[str]:
    """The names of the parcels that a direct search finds, in its order."""
    return [envelope["data"]["name"] for envelope in envelopes(api, condition, **query)]
