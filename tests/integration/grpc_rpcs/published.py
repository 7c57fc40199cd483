"""The published schemas of all event payloads (src/statewright/proto/events)."""

from collections.abc import Iterator
from functools import cache

from jsonschema import Draft202012Validator
from referencing import Registry, Resource
from referencing.jsonschema import DRAFT202012

from statewright.api.grpc.server import read_event_schemas
from tests.builders import Json


@cache
def documents() -> dict[str, Json]:
    """All schemas by their titles."""
    schemas: list[Json] = list(read_event_schemas().values())
    return {schema["title"]: schema for schema in schemas}


def types() -> list[str]:
    """All event types; shared parts are none."""
    return sorted(kind for kind, schema in documents().items() if schema["x-kind"] == "payload")


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
