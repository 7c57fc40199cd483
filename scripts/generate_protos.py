"""Writes the modules of the ``.proto`` files in ``proto`` to ``src/statewright/proto``: messages, service stubs and
their type stubs. A wheel has the files themselves there, too, because the service hands them out.

Run by ``make proto``. The results are checked in, so that an sdist installs without protoc; nobody edits them.

protoc's Python modules import each other as top-level modules. They live in a package here, so those imports are
rewritten, while the proto files keep the plain names other build files expect. For services protoc writes no
type stubs; those are written from the descriptors, for the asynchronous API only.
"""

import re
import sys
import tempfile
from collections.abc import Iterable, Mapping
from importlib.resources import files
from pathlib import Path

from google.protobuf.descriptor_pb2 import (
    FileDescriptorProto,
    FileDescriptorSet,
    MethodDescriptorProto,
    ServiceDescriptorProto,
)
from grpc_tools import protoc  # type: ignore[import-untyped]  # ships no types

ROOT = Path(__file__).resolve().parent.parent
SOURCES = ROOT / "proto"
MODULES = ROOT / "src" / "statewright" / "proto"
PACKAGE = "statewright.proto"

LOCAL_IMPORT = re.compile(r"^import (\w+_pb2) as ", re.MULTILINE)
NESTED_IMPORT = re.compile(r"^from (?!google\b|statewright\b)([\w.]+) import (\w+_pb2)", re.MULTILINE)

KINDS = {
    (False, False): "unary_unary",
    (False, True): "unary_stream",
    (True, False): "stream_unary",
    (True, True): "stream_stream",
}
"""Name of a method's kind by (client streams, server streams)."""


def main() -> int:
    protos = sorted(path.relative_to(SOURCES).as_posix() for path in SOURCES.rglob("*.proto"))
    with tempfile.TemporaryDirectory() as scratch:
        described = Path(scratch) / "described"
        failed = protoc.main([*arguments(described), *protos])
        if failed:
            return int(failed)
        written = FileDescriptorSet.FromString(described.read_bytes())
    for path in (*MODULES.rglob("*_pb2*.py"), *MODULES.rglob("*_pb2*.pyi")):
        path.write_text(packaged(path.read_text()))
    for file in written.file:
        finish(file, names_of(written.file))
    for name in protos:
        for folder in Path(name).parents:
            (MODULES / folder / "__init__.py").touch()
    return 0


def arguments(described: Path) -> list[str]:
    """The command line of protoc, without the files."""
    well_known = str(files("grpc_tools") / "_proto")
    outputs = [f"--{kind}_out={MODULES}" for kind in ("python", "pyi", "grpc_python")]
    return ["protoc", f"-I{SOURCES}", f"-I{well_known}", *outputs, f"--descriptor_set_out={described}"]


def packaged(source: str) -> str:
    """The module with imports of its siblings made absolute inside our package."""
    source = LOCAL_IMPORT.sub(rf"from {PACKAGE} import \1 as ", source)
    return NESTED_IMPORT.sub(rf"from {PACKAGE}.\1 import \2", source)


def names_of(files: Iterable[FileDescriptorProto]) -> Mapping[str, str]:
    """The Python name of every message of ours by its full name."""
    return {
        f".{file.package}.{message.name}": f"{proto_module(file.name)[1]}.{message.name}"
        for file in files
        for message in file.message_type
    }


def finish(file: FileDescriptorProto, names: Mapping[str, str]) -> None:
    """The type stub of the file's services; without any, protoc's empty service module goes."""
    module = MODULES / file.name.replace("-", "_").removesuffix(".proto")
    service_module = module.with_name(f"{module.name}_pb2_grpc.py")
    if file.service:
        service_module.with_suffix(".pyi").write_text(service_stub(file, names))
    else:
        service_module.unlink()


def service_stub(file: FileDescriptorProto, names: Mapping[str, str]) -> str:
    """Types of the client stub, the servicer and the registration function of every service of a file."""
    used = {names[name].partition(".")[0] for service in file.service for name in types_of(service)}
    modules = {proto_module(name) for name in (file.name, *file.dependency)}
    modules = {(package, name) for package, name in modules if name in used}
    lines = ["from collections.abc import AsyncIterable, AsyncIterator, Awaitable", "", "import grpc.aio", ""]
    lines += [f"from {package} import {name}" for package, name in sorted(modules)]
    for service in file.service:
        lines += ["", f"class {service.name}Stub:", "    def __init__(self, channel: grpc.aio.Channel) -> None: ..."]
        lines += [f"    {client_side(method, names)}" for method in service.method]
        lines += ["", f"class {service.name}Servicer:"]
        lines += [f"    {server_side(method, names)}" for method in service.method]
        lines += ["", f"def add_{service.name}Servicer_to_server("]
        lines += [f"    servicer: {service.name}Servicer, server: grpc.aio.Server", ") -> None: ..."]
    return "\n".join(lines) + "\n"


def types_of(service: ServiceDescriptorProto) -> Iterable[str]:
    """The full names of the messages that a service receives and sends."""
    return [name for method in service.method for name in (method.input_type, method.output_type)]


def client_side(method: MethodDescriptorProto, names: Mapping[str, str]) -> str:
    request, reply = names[method.input_type], names[method.output_type]
    kind = KINDS[method.client_streaming, method.server_streaming].title().replace("_", "")
    return f"{method.name}: grpc.aio.{kind}MultiCallable[{request}, {reply}]"


def server_side(method: MethodDescriptorProto, names: Mapping[str, str]) -> str:
    """The looser of the two ways to serve a method: a coroutine that writes, or an asynchronous generator."""
    request, reply = names[method.input_type], names[method.output_type]
    received = f"AsyncIterator[{request}]" if method.client_streaming else request
    context = f"grpc.aio.ServicerContext[{request}, {reply}]"
    returned = f"AsyncIterable[{reply}] | Awaitable[None]" if method.server_streaming else f"Awaitable[{reply}]"
    return f"def {method.name}(self, request: {received}, context: {context}, /) -> {returned}: ..."


def proto_module(proto: str) -> tuple[str, str]:
    """Package and name of the module that protoc writes for a file."""
    *folders, name = proto.removesuffix(".proto").replace("-", "_").split("/")
    return ".".join([PACKAGE, *folders]), f"{name}_pb2"


if __name__ == "__main__":
    sys.exit(main())
