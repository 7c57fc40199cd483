"""The example of the README is a program that serves."""

import asyncio
import re
import socket
from contextlib import suppress
from pathlib import Path
from typing import Any

import grpc.aio
from grpc_health.v1.health_pb2 import HealthCheckRequest, HealthCheckResponse
from grpc_health.v1.health_pb2_grpc import HealthStub

from grpc_h2_testing.echo import PATIENCE

README = Path(__file__).parents[2] / "README.md"


def read_example(port: int) -> dict[str, Any]:
    """What it defines, on another port."""
    [code] = re.findall(r"^```python\n(.*?)^```$", README.read_text(), re.MULTILINE | re.DOTALL)
    assert code.count("50051") == 1
    names: dict[str, Any] = {"__name__": "example"}
    exec(code.replace("50051", str(port)), names)
    return names


async def test_the_example_serves():
    with socket.create_server(("127.0.0.1", 0)) as free:
        port: int = free.getsockname()[1]
    serving = asyncio.create_task(read_example(port)["main"]())
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        asked = HealthStub(channel).Check(HealthCheckRequest(), timeout=PATIENCE, wait_for_ready=True)
        assert (await asked).status == HealthCheckResponse.SERVING
    serving.cancel()
    with suppress(asyncio.CancelledError):
        await serving
