"""The published schemas of all event payloads. They are no part of this repository, so a clone may lack them."""

import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator
from referencing import Registry, Resource
from referencing.jsonschema import DRAFT202012

from tests.builders import Json

FOLDER = Path(__file__).resolve().parents[3].parent / "shared" / "spec" / "cloudevents"

needed = pytest.mark.skipif(
    not FOLDER.is_dir(), reason="the published schemas are not beside this repository (../shared/spec/cloudevents)"
)


@cache
def documents() -> dict[str, Json]:
    """All schemas by the names of their files, without suffix."""
    return {path.stem: json.loads(path.read_text()) for path in FOLDER.glob("*.json") if path.stem != "index"}


@cache
def index() -> Json:
    """Which event types there are, and where they belong."""
    return json.loads((FOLDER / "index.json").read_text())["payloads"]


def types() -> list[str]:
    """All event types; none when the schemas are not there."""
    return sorted(index()) if FOLDER.is_dir() else []


@cache
def validator(kind: str) -> Draft202012Validator:
    """What checks payloads of the type."""
    resources = [
        (schema["$id"], Resource.from_contents(schema, default_specification=DRAFT202012))
        for schema in documents().values()
    ]
    registry: Registry[Json] = Registry().with_resources(resources)
    return Draft202012Validator(
        documents()[kind], registry=registry, format_checker=Draft202012Validator.FORMAT_CHECKER
    )


def faults(kind: str, payload: Json) -> list[str]:
    """What a payload of ours violates. The schemas let unknown members pass; we let none (decision S9)."""
    found = [f"{error.json_path}: {error.message}" for error in validator(kind).iter_errors(payload)]
    unknown = payload.keys() - set(members(kind))
    return found + [f"$.{name}: no member of {kind}" for name in sorted(unknown)]


def members(kind: str) -> Iterator[str]:
    """The declared members of a payload, those of its base included."""
    yield from documents()["BaseEvent"]["properties"]
    yield from documents()[kind].get("properties", {})
