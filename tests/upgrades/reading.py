"""Everything that can be read of what :mod:`tests.upgrades.filling` stored, by request."""

import json
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor

from tests.builders import Json
from tests.service import Api

EVERYTHING = {"type": "group", "operator": "AND", "conditions": []}
READERS = 4


def read_everything(api: Api, v1: Api, known: Json) -> dict[str, Json]:
    """Status and JSON of each answer, by method and path."""
    with ThreadPoolExecutor(READERS) as readers:
        found = dict(readers.map(lambda path: _get(api, v1, path), list_paths(known)))
        changes = {path: answer for path, answer in found.items() if path.endswith("/changes")}
        found |= readers.map(lambda path: _get(api, v1, path), _list_versions(changes))
    for model in known["models"]:
        for path, body in (
            (f"/search/direct/{model}?limit=1000", EVERYTHING),
            (f"/entity/stats/{model}/query", {"groupBy": ["state"]}),
        ):
            response = api.post(path, body)
            found[f"POST {path}"] = {"status": response.status_code, "body": _decode(response.text)}
    return found


def list_paths(known: Json) -> list[str]:
    """What is asked for with GET, but for versions."""
    paths = ["/model/", "/entity/stats", "/entity/stats/states", "/v1/definitions", "/v1/instances?pageSize=100"]
    paths += ["/v1/user-tasks?pageSize=100"]
    for model in known["models"]:
        paths += [f"/model/export/{view}/{model}" for view in ("SIMPLE_VIEW", "JSON_SCHEMA")]
        paths += [f"/model/{model}/workflow/export", f"/model/{model}/index", f"/entity/{model}?pageSize=1000"]
        paths += [f"/entity/stats/{model}", f"/entity/stats/states/{model}"]
    for entity in known["entities"]:
        paths += [f"/entity/{entity}", f"/entity/{entity}/changes", f"/entity/{entity}/transitions"]
        paths += [f"/audit/entity/{entity}?limit=1000"]
    paths += [f"/message/{message}" for message in known["messages"]]
    for search in known["searches"]:
        paths += [f"/search/async/{search}/status", f"/search/async/{search}?pageSize=1000"]
    for definition in known["definitions"]:
        paths += [f"/v1/definitions/{definition}{of}" for of in ("", "/versions/1", "/diagram")]
    for instances in known["instances"].values():
        paths += [f"/v1/instances/{instance}{of}" for instance in instances for of in ("", "/history", "/diagram")]
    return paths + known.get("paths", [])


def _list_versions(changes: Mapping[str, Json]) -> Iterator[str]:
    """Every version of every entity, by the transaction that wrote it."""
    for path, answer in changes.items():
        entity = path.removesuffix("/changes").removeprefix("GET ")
        if answer["status"] == 200:
            for change in answer["body"]:
                # A deletion is no version; it has a time only.
                key, value = (
                    ("transactionId", change["transactionId"])
                    if "transactionId" in change
                    else ("pointInTime", change["timeOfChange"])
                )
                yield f"{entity}?{key}={value}"


def _get(api: Api, v1: Api, path: str) -> tuple[str, Json]:
    response = (v1 if path.startswith(("/v1/", "/ops/")) else api).get(path)
    return f"GET {path}", {"status": response.status_code, "body": _decode(response.text)}


def _decode(text: str) -> Json:
    """JSON with its numbers as they are written; or the text, if it is none."""
    try:
        return json.loads(text, parse_int=str, parse_float=str)
    except ValueError:
        return text
