"""What the service publishes of its own interface, for those who generate clients (spec/grpc.md §1)."""

from importlib.resources import files
from typing import Final

from google.protobuf import json_format
from google.protobuf.descriptor import FileDescriptor
from google.protobuf.descriptor_pb2 import FileDescriptorSet

from statewright.proto import cyoda_cloud_api_pb2
from statewright.proto.workflow.v1 import engine_pb2

SOURCES: Final = ("cloudevents.proto", "cyoda-cloud-api.proto", "workflow/v1/engine.proto")
SERVICES: Final = (cyoda_cloud_api_pb2.DESCRIPTOR, engine_pb2.DESCRIPTOR)


def proto_sources() -> str:
    """All source files, each under its name."""
    folder = files("statewright.proto")
    return "\n".join(f"// {name}\n\n{(folder / name).read_text()}" for name in SOURCES)


def descriptor_set() -> str:
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
