"""Flows against the step engine: ``python -m benchmarks.flows``.

1. *Chains.* So many flows of three tasks are in flight together, and so many instances of the step engine's chain of three service
   tasks, in turns on one server; workers claim batches and complete every job at once. The use cases are called in this
   process, without HTTP.
2. *Iteration.* One flow with an iteration over many elements, all of them done by the same workers: elements per second by
   tenth, and the growth of this process.
3. *Events.* Many instances wait for an event each; one of these comes, again and again.
4. *Compiling.* A text of many nodes, from the text to the net that runs.
"""

import argparse
import asyncio
import time
from collections.abc import Awaitable, Callable
from functools import partial
from statistics import median

import psutil
import uvloop
from msgspec import Struct
from rich.console import Console

from benchmarks.report import show_machine
from benchmarks.steps import TYPES, Engine, Measured, ProcessEngine, chains, compute_rates, drain, start_sides, tabulate
from statewright.flows import compile_graph, compile_text
from statewright.flows.advancing import FlowEvent
from statewright.flows.definition import FlowSource
from statewright.jsonval.values import JsonObject
from statewright.services.flows import events
from statewright.services.flows.dialect import FLOW_DIALECT

CHAIN = " → ".join(TYPES)
INPUT = {"applicant": "Ada Lovelace", "amount": 12_345, "note": "x" * 200}
MIB = 1024 * 1024


class FlowEngine(ProcessEngine):
    """The use cases of flows in this process."""

    dialect = FLOW_DIALECT

    async def prepare(self, source: str) -> None:
        """Store the flow that is started."""
        await self.upload(FlowSource(id="bench", text=source))

    async def start(self, value: object = INPUT) -> str:
        """A new instance; its id."""
        return await self.begin({"definitionId": "bench", "input": value})  # type: ignore[dict-item]

    async def deliver(self, kind: str, fields: JsonObject) -> int:
        """Send an event; how many tasks it completed."""
        event = FlowEvent(kind=kind, fields=fields)
        return (await events.deliver(self.processes, self.caller, event)).tasks


class Iterated(Struct, frozen=True, kw_only=True):
    """What one long iteration took."""

    rates: list[float]
    """Elements per second, by tenth."""
    took_s: float
    grown_mib: float


async def iterate(engine: ProcessEngine, begin: Callable[[], Awaitable[str]], elements: int) -> Iterated:
    """One loop over so many elements, whose jobs are of the type ``a``, to its end."""
    process = psutil.Process()
    sizes, marks = [process.memory_info().rss], [time.perf_counter()]
    instance = await begin()
    await drain(engine, elements, "a", marks, lambda: sizes.append(process.memory_info().rss))
    if (status := await engine.read_status(instance)) != "COMPLETED":
        raise RuntimeError(f"it is {status}")
    grown = max(sizes) - sizes[0]
    return Iterated(rates=compute_rates(marks, elements), took_s=marks[-1] - marks[0], grown_mib=grown / MIB)


def describe_loop(found: Iterated, elements: int) -> str:
    """What it took."""
    return (
        f"over {elements:,} elements: {found.took_s:.1f} s, {elements / found.took_s:,.0f} elements/s, "
        f"by tenth {', '.join(f'{rate:,.0f}' for rate in found.rates)}; this process grew by {found.grown_mib:.0f} MiB"
    )


WAIT = 'wait:event({"event": "paid", "match": "input"})'
EVENTS = 50
AT_ONCE = 64


async def deliver_events(engine: FlowEngine, waiting: int) -> list[float]:
    """Seconds that events took of which each completes one task, while so many wait."""
    await engine.prepare(WAIT)
    for first in range(0, waiting, AT_ONCE):
        numbers = range(first, min(first + AT_ONCE, waiting))
        await asyncio.gather(*(engine.start({"order": number}) for number in numbers))
    took = []
    for number in range(0, waiting, max(waiting // EVENTS, 1)):
        began = time.perf_counter()
        if await engine.deliver("paid", {"order": number}) != 1:
            raise RuntimeError("the event completed something else than one task")
        took.append(time.perf_counter() - began)
    return took


def measure_compiling(nodes: int) -> float:
    """Seconds of processor time for a text of so many tasks, in statements of a hundred."""
    tasks = [f"t{number}" for number in range(nodes)]
    text = " ;\n".join(" → ".join(tasks[at : at + 100]) for at in range(0, nodes, 100))
    began = time.process_time()
    compile_graph(compile_text(text))
    return time.process_time() - began


async def run(options: argparse.Namespace, console: Console) -> None:
    """All parts, and their figures."""
    flows, steps = list[Measured](), list[Measured]()
    show_machine(console)
    async with start_sides() as (runtime, _, database):
        for _ in range(options.rounds):
            engine = FlowEngine(runtime)
            await engine.prepare(CHAIN)
            flows.append(await chains(engine, options.instances, database))
            step_engine = Engine(runtime)
            await step_engine.prepare()
            steps.append(await chains(step_engine, options.instances, database))
        title = f"{options.instances:,} chains of three tasks in flight together"
        caption = "Flows do {:.2f} of the step engine's instances per second (wanted: 0.9)."
        console.print(tabulate(title, {"flows": flows, "step engine": steps}, caption))
        engine = FlowEngine(runtime)
        await engine.prepare("* a")
        begin = partial(engine.start, [{"n": n} for n in range(options.elements)])
        console.print(
            f"One iteration {describe_loop(await iterate(engine, begin, options.elements), options.elements)}"
        )
        took = [second * 1000 for second in await deliver_events(FlowEngine(runtime), options.waiting)]
    console.print(
        f"One event among {options.waiting:,} waiting instances: {median(took):.1f} ms, {max(took):.1f} ms at most of {len(took)}"
    )
    seconds = median(measure_compiling(options.nodes) for _ in range(3))
    console.print(f"A text of {options.nodes:,} tasks compiles in {seconds:.2f} s of processor time.")


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--instances", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--elements", type=int, default=10_000)
    parser.add_argument("--waiting", type=int, default=10_000, help="instances that wait for an event each")
    parser.add_argument(
        "--nodes",
        type=int,
        default=9_998,
        help="tasks of the text that is compiled; with start and end, 10,000 nodes are the most",
    )
    uvloop.run(run(parser.parse_args(), Console(width=140)))


if __name__ == "__main__":
    main()
