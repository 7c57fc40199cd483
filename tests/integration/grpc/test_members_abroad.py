"""Members on the gRPC libraries of other languages: Go, JavaScript and Java (netty).

They need packages of their registries, and take part when ``STATEWRIGHT_TEST_MEMBERS`` names a directory to keep them
in: a run downloads what is not there.
"""

import asyncio
import os
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from msgspec import Struct

from statewright.api.grpc.members import KeepAlive
from statewright.api.grpc.server import GrpcListenConfig
from tests.integration.grpc.door import Door, an_open_door, document_in
from tests.unit.compute.builders import ACME, a_callout

pytestmark = pytest.mark.xdist_group("members-abroad")

HERE = Path(__file__).parent / "members"
PROTOS = Path(__file__).parents[3] / "proto"
PATIENCE_S = 60.0
PREPARED_WITHIN_S = 600.0

CALLOUTS = 200
LARGE = 300_000
"""Octets of some documents: more than a client takes at once."""

CANONICAL = {
    "DEADLINE_EXCEEDED": {"DEADLINE_EXCEEDED", "DeadlineExceeded"},
    "UNAVAILABLE": {"UNAVAILABLE", "Unavailable"},
}
"""How the languages spell a status."""


class Command(Struct, frozen=True, kw_only=True):
    """How to start a member: its program, what it wants to know of the protocol, where its packages are."""

    program: Sequence[str]
    protocol: Path
    packages: Path


@pytest.fixture(params=["node", "go", "java"])
def command(request: pytest.FixtureRequest, tmp_path: Path) -> Command:
    kept, language = os.environ.get("STATEWRIGHT_TEST_MEMBERS"), str(request.param)
    if not kept:
        pytest.skip("STATEWRIGHT_TEST_MEMBERS names no directory for packages")
    packages, descriptors = Path(kept).resolve() / language, tmp_path / "protocol.binpb"
    packages.mkdir(parents=True, exist_ok=True)
    described(descriptors)
    protocol = PROTOS if language == "node" else descriptors
    return Command(program=prepared(language, packages), protocol=protocol, packages=packages)


async def test_a_member_works_through_callouts_and_a_restart_of_the_server(command: Command):
    often = KeepAlive(interval=0.2, timeout=20.0)
    async with an_open_door(keep_alive=often) as first:
        again = GrpcListenConfig(host="127.0.0.1", port=first.server.port)
        async with a_member(command, first.address) as says:
            assert await says() in told("late", "DEADLINE_EXCEEDED")
            assert (await says()).startswith("unary ")
            assert await says() == "joined"
            await work(first)
            await first.stop(grace=0.2)
            assert await says() in told("ended", "UNAVAILABLE")
            async with an_open_door(listening=again, keep_alive=often) as second:
                while (word := await says()) != "joined":
                    assert word in told("ended", "UNAVAILABLE")
                await work(second)


async def work(door: Door) -> None:
    """Many callouts at once, some of them large; all are answered."""
    documents = [{"n": n, "text": "x" * (LARGE if n % 20 == 0 else 10)} for n in range(CALLOUTS)]
    async with asyncio.timeout(PATIENCE_S):
        replies = await asyncio.gather(*(door.ask(a_callout(tags=("member",), data=one)) for one in documents))
    assert [document_in(reply) for reply in replies] == documents
    assert len(door.members.list_members(ACME)) == 1


def told(word: str, status: str) -> set[str]:
    return {f"{word} {spelling}" for spelling in CANONICAL[status]}


def prepared(language: str, packages: Path) -> Sequence[str]:
    """The command of a member but for the server's address and its protocol. Skips what is not installed."""
    match language:
        case "node":
            node = installed("node")
            if not (packages / "node_modules").exists():
                run(installed("npm"), "install", "@grpc/grpc-js@1", "@grpc/proto-loader@0.8", within=packages)
            return [node, str(HERE / "member.mjs")]
        case "go":
            shutil.copy(HERE / "member.go", packages)
            if not (packages / "go.mod").exists():
                run(installed("go"), "mod", "init", "member", within=packages)
                run(installed("go"), "mod", "tidy", within=packages)
            run(installed("go"), "build", "-o", "member", "member.go", within=packages)
            return [str(packages / "member")]
        case _:
            if not (packages / "jars").exists():
                shutil.copy(HERE / "pom.xml", packages)
                copied = "dependency:copy-dependencies"
                run(installed("mvn"), "-q", copied, f"-DoutputDirectory={packages / 'jars'}", within=packages)
            return [installed("java"), "-cp", f"{packages / 'jars'}/*", str(HERE / "Member.java")]


def run(*command: str, within: Path) -> None:
    subprocess.run(command, cwd=within, timeout=PREPARED_WITHIN_S, check=True, capture_output=True)


def installed(name: str) -> str:
    path = shutil.which(name)
    if path is None:
        pytest.skip(f"{name} is not installed")
    return path


def described(path: Path) -> None:
    """Writes the protocol as a set of descriptors, imports included."""
    run(
        sys.executable,
        *("-m", "grpc_tools.protoc", f"-I{PROTOS}", "--include_imports", f"--descriptor_set_out={path}"),
        "cyoda-cloud-api.proto",
        within=PROTOS,
    )


@asynccontextmanager
async def a_member(command: Command, address: str) -> AsyncIterator[Callable[[], Awaitable[str]]]:
    """A member that runs meanwhile; called, it gives the next line it says."""
    process = await asyncio.create_subprocess_exec(
        *command.program,
        address,
        str(command.protocol),
        stdout=asyncio.subprocess.PIPE,
        env={**os.environ, "NODE_PATH": str(command.packages / "node_modules")},
    )
    assert process.stdout is not None
    lines = process.stdout

    async def says() -> str:
        async with asyncio.timeout(PATIENCE_S):
            return (await lines.readline()).decode().strip()

    try:
        yield says
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
