"""A node of the SDK at a real server: working, connecting again, stopping."""

import asyncio
import os
import re
import signal
import sys
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from decimal import Decimal
from pathlib import Path

import msgspec
import pytest
from msgspec import UNSET

from grpc_h2 import Limits
from statewright.api.grpc.server import GrpcListenConfig
from statewright.compute.callout import CalloutTimeout
from statewright.failures import ComputeMemberDisconnected
from statewright.ids import TenantId
from statewright.jsonval.values import JsonObject
from statewright.sdk import Context, Node, Rejected
from tests.integration.grpc.door import BRISK, PATIENCE, Door, an_open_door, document_in
from tests.unit.compute.builders import ACME, a_callout, a_principal

ROOT = Path(__file__).parents[3]


@asynccontextmanager
async def serving(node: Node, door: Door, *, token: str = "acme") -> AsyncIterator["asyncio.Task[None]"]:
    """The node at work, with the door knowing it."""
    task = asyncio.create_task(node.serve(door.address, token=token))
    try:
        await membership(door, 1)
        yield task
    finally:
        node.stop()
        await asyncio.wait([task], timeout=PATIENCE)
        task.cancel()


START_PATIENCE = 60.0
"""For a program to start, which on a machine with a slow disk is a matter of what is cached."""


async def membership(door: Door, count: int, tenant: TenantId = ACME, *, within_s: float = PATIENCE) -> None:
    """Returns when so many members are connected."""
    async with asyncio.timeout(within_s):
        while len(door.members.list_members(tenant)) != count:
            await door.members.changed()


async def test_hello_world(door: Door):
    node = Node(tags=["approval"])

    @node.processor("approve")
    def approve(prize: dict[str, object]) -> dict[str, object]:
        return prize | {"approved": True}

    async with serving(node, door):
        reply = await door.ask(a_callout("approve", tags=("approval",), data={"year": "2024"}))
        assert document_in(reply) == {"year": "2024", "approved": True}


async def test_numbers_pass_through_a_node_with_every_digit(door: Door):
    node = Node()
    node.processor("same")(lambda document: document)
    data = {"total": Decimal("12.50"), "huge": 2**90, "tiny": Decimal("1E-30")}
    async with serving(node, door):
        assert document_in(await door.ask(a_callout("same", data=data))) == data


async def test_returning_nothing_changes_nothing(door: Door):
    node = Node()
    node.processor("look")(lambda document: None)
    async with serving(node, door):
        reply = await door.ask(a_callout("look"))
        assert (reply.success, reply.data) == (True, UNSET)


async def test_an_exception_is_a_failure_with_its_message(door: Door):
    node = Node()

    @node.processor("fail")
    def fail(document: object, context: Context) -> None:
        context.warn("tried hard")
        raise LookupError("no tariff for R-100")

    async with serving(node, door):
        reply = await door.ask(a_callout("fail"))
        assert (reply.success, reply.error, reply.warnings) == (False, "no tariff for R-100", ("tried hard",))


async def test_a_result_that_is_no_json_is_a_failure_that_says_so(door: Door):
    node = Node()
    node.processor("odd")(lambda: object())
    async with serving(node, door):
        reply = await door.ask(a_callout("odd"))
        assert (reply.success, reply.error and reply.error.startswith("the result is not JSON")) == (False, True)


async def test_an_answer_that_is_too_large_is_a_failure_of_its_callout_alone():
    node, going, grown = Node(), asyncio.Event(), asyncio.Event()
    limits = Limits(message_bytes=100_000)

    @node.processor("grow")
    def grow(document: object, context: Context) -> dict[str, object]:
        context.warn("x" * 100_000)
        return {"text": "x" * 100_000}

    @node.processor("wait")
    async def wait() -> dict[str, object]:
        going.set()
        await grown.wait()
        return {"text": "x" * 99_000}

    async with (
        an_open_door(listening=GrpcListenConfig(host="127.0.0.1", port=0, limits=limits)) as door,
        serving(node, door),
    ):
        members = door.members.list_members(ACME)
        other = door.ask(a_callout("wait"))
        await going.wait()
        reply = await door.ask(a_callout("grow"))
        assert reply.error is not None
        assert re.fullmatch(r"the answer has 2\d{5} bytes, and the service takes 100000 at most", reply.error)
        assert (reply.success, reply.retryable, reply.warnings) == (False, False, ())
        grown.set()
        assert document_in(await other) == {"text": "x" * 99_000}
        assert members == door.members.list_members(ACME)


async def test_a_function_the_node_lacks_is_a_failure_and_not_a_timeout(door: Door):
    async with serving(Node(), door):
        reply = await door.ask(a_callout("missing"))
        assert (reply.success, reply.error) == (False, "this node has no processor named missing")


async def test_criteria_give_reasons_for_refusals(door: Door):
    node = Node()
    node.criterion("worthy")(lambda prize: prize["laureates"] > 0 or Rejected("no laureates"))
    async with serving(node, door):
        yes = await door.ask(a_callout("worthy", kind="criteria", data={"laureates": 1}))
        no = await door.ask(a_callout("worthy", kind="criteria", data={"laureates": 0}))
        assert (yes.matches, no.matches, no.reason) == (True, False, "no laureates")


async def test_functions_give_fire_times(door: Door):
    node = Node()
    node.function("due")(lambda: {"fireAfterMs": 60_000})
    async with serving(node, door):
        reply = await door.ask(a_callout("due", kind="function"))
        assert (reply.result_kind, reply.result) == ("Schedule", {"fireAfterMs": 60_000})


async def test_the_context_tells_where_and_for_whom(door: Door):
    seen = list[Context]()
    node = Node()
    node.processor("look")(lambda document, context: seen.append(context))
    callout = a_callout("look", principal=a_principal(roles=("A", "B")), tx_token="token", parameters="strict")
    async with serving(node, door):
        await door.ask(callout)
    (context,) = seen
    assert (context.entity_id, context.transaction_id, context.tx_token) == (
        callout.entity_id,
        callout.transaction_id,
        "token",
    )
    assert (context.workflow, context.transition, context.state, context.parameters) == (
        "order-flow",
        "submit",
        "NEW",
        "strict",
    )
    assert (context.principal.id, context.principal.roles) == ("alice", ("A", "B"))


async def test_structs_are_decoded_and_encoded(door: Door):
    class Order(msgspec.Struct):
        total: Decimal

    node = Node()

    @node.processor("tax")
    async def tax(order: Order) -> Order:
        return Order(order.total * 2)

    async with serving(node, door):
        reply = await door.ask(a_callout("tax", data={"total": Decimal("0.1"), "currency": "SEK"}))
        assert document_in(reply) == {"total": Decimal("0.2"), "currency": "SEK"}


async def test_no_more_functions_run_at_once_than_allowed(door: Door):
    node = Node(concurrency=2)
    pair, running, most = asyncio.Event(), 0, 0

    @node.processor("count")
    async def count() -> None:
        nonlocal running, most
        running, most = running + 1, max(most, running + 1)
        if running == 2:
            pair.set()
        await pair.wait()
        for _ in range(50):  # long enough for others to begin, if they may
            await asyncio.sleep(0)
        running -= 1

    async with serving(node, door):
        await asyncio.gather(*(door.ask(a_callout("count")) for _ in range(8)))
        assert most == 2


async def test_plain_functions_do_not_block_each_other(door: Door):
    node = Node()
    meeting = threading.Barrier(4, timeout=PATIENCE)
    node.processor("meet")(lambda: {"place": meeting.wait()})
    async with serving(node, door):
        replies = await asyncio.gather(*(door.ask(a_callout("meet")) for _ in range(4)))
    assert [reply.success for reply in replies] == [True] * 4


async def test_a_busy_node_acknowledges_probes():
    async with an_open_door(keep_alive=BRISK) as door:
        node = Node()
        gate = asyncio.Event()

        @node.processor("wait")
        async def wait() -> None:
            await gate.wait()

        async with serving(node, door):
            asking = door.ask(a_callout("wait"))
            await asyncio.wait([asking], timeout=4 * BRISK.timeout)
            gate.set()
            assert (await asking).success


async def test_a_node_outlives_a_restart_of_the_server():
    node = Node(tags=["t"])
    node.processor("same")(lambda document: document)
    async with an_open_door() as first:
        port = first.server.port
        task = asyncio.create_task(node.serve(first.address, token="acme"))
        await membership(first, 1)
    async with an_open_door(listening=GrpcListenConfig(host="127.0.0.1", port=port)) as second:
        await membership(second, 1)
        assert document_in(await second.ask(a_callout("same", data={"n": 1}))) == {"n": 1}
        node.stop()
        await asyncio.wait_for(task, PATIENCE)


async def test_a_node_that_starts_first_waits_for_its_server():
    node = Node()
    async with an_open_door() as probe:
        port = probe.server.port
    task = asyncio.create_task(node.serve(f"127.0.0.1:{port}", token="acme"))
    async with an_open_door(listening=GrpcListenConfig(host="127.0.0.1", port=port)) as door:
        await membership(door, 1)
        node.stop()
        await asyncio.wait_for(task, PATIENCE)


async def test_a_rejected_token_is_asked_for_again(door: Door):
    offered = iter(["expired", "acme"])
    node = Node()
    task = asyncio.create_task(node.serve(door.address, token=lambda: next(offered)))
    await membership(door, 1)
    assert next(offered, None) is None
    node.stop()
    await asyncio.wait_for(task, PATIENCE)


async def test_stopping_lets_running_functions_finish_and_then_leaves(door: Door):
    node = Node()
    began, gate = asyncio.Event(), asyncio.Event()

    @node.processor("slow")
    async def slow() -> dict[str, bool]:
        began.set()
        await gate.wait()
        return {"finished": True}

    async with serving(node, door) as task:
        asking = door.ask(a_callout("slow"))
        await began.wait()
        node.stop()
        gate.set()
        assert document_in(await asking) == {"finished": True}
        await asyncio.wait_for(task, PATIENCE)
        await membership(door, 0)


async def test_stopping_takes_no_more_callouts(door: Door):
    node = Node()
    began, gate, late = asyncio.Event(), asyncio.Event(), list[str]()

    @node.processor("slow")
    async def slow() -> None:
        began.set()
        await gate.wait()

    node.processor("late")(lambda: late.append("ran"))
    async with serving(node, door):
        asking = door.ask(a_callout("slow"))
        await began.wait()
        node.stop()
        await asyncio.sleep(0)
        refused = door.ask(a_callout("late"))
        await asyncio.wait([refused], timeout=0.2)
        gate.set()
        await asking
        with pytest.raises(ComputeMemberDisconnected):
            await refused
        assert not late


async def test_a_function_that_outlasts_the_grace_is_broken_off(door: Door):
    node = Node(grace=0.05)
    began, ended = asyncio.Event(), asyncio.Event()

    @node.processor("stuck")
    async def stuck() -> None:
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    async with serving(node, door) as task:
        asking = door.ask(a_callout("stuck"))
        await began.wait()
        node.stop()
        with pytest.raises(ComputeMemberDisconnected):
            await asking
        await asyncio.wait_for(task, PATIENCE)
        assert ended.is_set()


async def test_a_late_answer_of_a_node_does_no_harm(door: Door):
    node = Node()
    gate = asyncio.Event()

    @node.processor("late")
    async def late() -> None:
        await gate.wait()

    node.processor("prompt")(lambda: {"prompt": True})
    async with serving(node, door):
        with pytest.raises(CalloutTimeout):
            await door.ask(a_callout("late", timeout_ms=50))
        gate.set()
        assert document_in(await door.ask(a_callout("prompt"))) == {"prompt": True}


@asynccontextmanager
async def a_node_program(door: Door, target: str, *, cwd: Path = ROOT) -> AsyncIterator[asyncio.subprocess.Process]:
    """``statewright node`` as a process, without the command line parser around it."""
    program = f"import sys; from statewright.sdk.cli import run; sys.exit(run({target!r}))"
    environment = {
        **os.environ,
        "STATEWRIGHT_COMPUTE_ENDPOINT": door.address,
        "STATEWRIGHT_COMPUTE_TOKEN": "acme",
        "PYTHONPATH": os.pathsep.join(sys.path),
    }
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", program, cwd=cwd, env=environment, stdout=asyncio.subprocess.PIPE
    )
    try:
        await membership(door, 1, within_s=START_PATIENCE)
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def test_the_node_of_the_demo_approves_prizes_and_leaves_on_a_signal(door: Door):
    async with a_node_program(door, "examples.prizes_node:node") as process:
        prize: JsonObject = {"year": "2024", "category": "physics"}
        reply = await door.ask(a_callout("notify-approval", tags=("approval-service",), data=prize))
        document = document_in(reply)
        assert isinstance(document, dict)
        approval = document.pop("approval")
        assert document == prize
        assert isinstance(approval, dict)
        assert (approval["by"], approval["transition"]) == ("alice", "submit")
        process.send_signal(signal.SIGTERM)
        assert await asyncio.wait_for(process.wait(), PATIENCE) == 0


SLEEPY_NODE = """
import asyncio
from statewright.sdk import Node

node = Node()

@node.processor("sleep")
async def sleep():
    print("began", flush=True)
    await asyncio.sleep(60)
"""


async def line_of(process: asyncio.subprocess.Process) -> bytes:
    """What the program prints next."""
    assert process.stdout is not None
    return await asyncio.wait_for(process.stdout.readline(), PATIENCE)


async def test_killing_a_node_fails_its_callout_at_once(door: Door, tmp_path: Path):
    (tmp_path / "sleepy.py").write_text(SLEEPY_NODE)
    async with a_node_program(door, "sleepy", cwd=tmp_path) as process:
        asking = door.ask(a_callout("sleep"))
        await line_of(process)
        process.kill()
        with pytest.raises(ComputeMemberDisconnected):
            await asyncio.wait_for(asking, PATIENCE)


async def test_a_second_signal_does_not_wait_for_functions(door: Door, tmp_path: Path):
    (tmp_path / "sleepy.py").write_text(SLEEPY_NODE)
    async with a_node_program(door, "sleepy", cwd=tmp_path) as process:
        asking = door.ask(a_callout("sleep"))
        await line_of(process)
        process.send_signal(signal.SIGTERM)
        process.send_signal(signal.SIGINT)
        with pytest.raises(ComputeMemberDisconnected):
            await asyncio.wait_for(asking, PATIENCE)
        assert await asyncio.wait_for(process.wait(), PATIENCE) == 0


async def test_a_plain_function_that_never_returns_does_not_keep_the_program_alive(door: Door, tmp_path: Path):
    (tmp_path / "stuck.py").write_text(STUCK_NODE)
    async with a_node_program(door, "stuck", cwd=tmp_path) as process:
        asking = door.ask(a_callout("stick"))
        await line_of(process)
        process.send_signal(signal.SIGTERM)
        with pytest.raises(ComputeMemberDisconnected):
            await asyncio.wait_for(asking, PATIENCE)
        assert await asyncio.wait_for(process.wait(), PATIENCE) == 0


STUCK_NODE = """
import threading
from statewright.sdk import Node

node = Node(grace=0.1)

@node.processor("stick")
def stick():
    print("began", flush=True)
    threading.Event().wait()
"""
