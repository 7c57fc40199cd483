"""What the service publishes about its interface, for authors and generators of clients: JSON Schemas of all event
payloads, and the protobuf sources and descriptors (docs/reference/grpc.md#service).

The schemas are files, ``proto/events``, as the sources of the protocol are; tests hold every payload that is sent to
them, and every example in them to what is read.
"""

from collections.abc import Iterator
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Final

import msgspec
from google.protobuf import json_format
from google.protobuf.descriptor import FileDescriptor
from google.protobuf.descriptor_pb2 import FileDescriptorSet

from statewright.proto import cyoda_cloud_api_pb2
from statewright.proto.workflow.v1 import engine_pb2

DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
BASE_ID: Final = "https://cyoda.com/cloud/event/"


def read_event_schemas() -> dict[str, object]:
    """Every schema by its path below :data:`BASE_ID`, ``<category>/<event type>.json``, in order of paths; the parts
    that they share are among them.
    """
    found = _walk_schemas(files("statewright.proto") / "events", "")
    return {path: msgspec.json.decode(file.read_bytes()) for path, file in sorted(found)}


def _walk_schemas(folder: Traversable, prefix: str) -> Iterator[tuple[str, Traversable]]:
    for entry in folder.iterdir():
        if entry.is_dir():
            yield from _walk_schemas(entry, f"{prefix}{entry.name}/")
        elif entry.name.endswith(".json"):
            yield f"{prefix}{entry.name}", entry


SOURCES: Final = ("cloudevents.proto", "cyoda-cloud-api.proto", "workflow/v1/engine.proto")
SERVICES: Final = (cyoda_cloud_api_pb2.DESCRIPTOR, engine_pb2.DESCRIPTOR)


def read_proto_sources() -> str:
    """All source files, each under its name."""
    folder = files("statewright.proto")
    return "\n".join(f"// {name}\n\n{(folder / name).read_text()}" for name in SOURCES)


def build_descriptor_set() -> str:
    """The services and everything they are made of as protobuf JSON, dependencies first."""
    found: dict[str, FileDescriptor] = {}
    for service in SERVICES:
        _collect(service, found)
    described = FileDescriptorSet()
    for descriptor in found.values():
        descriptor.CopyToProto(described.file.add())
    return json_format.MessageToJson(described, indent=None)


def _collect(descriptor: FileDescriptor, found: dict[str, FileDescriptor]) -> None:
    for dependency in descriptor.dependencies:
        _collect(dependency, found)
    found[descriptor.name] = descriptor
