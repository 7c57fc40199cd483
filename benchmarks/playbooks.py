"""Playbooks on their host: ``python -m benchmarks.playbooks``.

1. *Executions.* So many executions of a playbook of five steps are in flight together, beside as many instances of the step
   engine's chain, in turns on one server; workers claim batches and complete every job at once. The use cases are called in
   this process, without HTTP.
2. *Fan-out.* One execution in which 9,900 tokens are made by inclusive arcs, all of steps that only route: arcs per second.
3. *Pending.* 1,000 tokens wait for admission; each patch of what their rule looks at has all of them asked again.
4. *Loop.* One execution with a parallel loop over many elements, beside nothing and beside a result of 1 MB.
"""

import argparse
import json
import time
from collections.abc import Awaitable, Callable
from functools import partial
from statistics import median

import uvloop
from rich.console import Console

from benchmarks.flows import describe_loop, iterate
from benchmarks.report import show_machine
from benchmarks.steps import Engine, Measured, ProcessEngine, chains, start_sides, tabulate
from statewright.jsonval.values import JsonObject, JsonValue
from statewright.playbooks.source import PlaybookSource
from statewright.services.playbooks.dialect import PLAYBOOK_DIALECT
from statewright.services.processes import dialects
from statewright.services.processes.jobs import ClaimedJob
from statewright.services.runtime import Runtime

HEADER = "metadata: {name: bench}\nworkflow:\n"
FIVE = HEADER + "\n".join(
    [
        "- {step: a, tool: {kind: one}, next: {arcs: [{step: b, args: {n: 1}}]}}",
        "- {step: b, tool: {kind: noop}, set: {ctx.n: '{{ args.n }}'}, next: {arcs: [{step: c, when: '{{ ctx.n > 0 }}'}]}}",
        "- {step: c, tool: {kind: one}, next: {arcs: [{step: d}]}}",
        "- {step: d, next: {arcs: [{step: e}]}}",
        "- {step: e, tool: {kind: one}}",
    ]
)
"""Three steps for workers, one that sets a value, one that only routes."""
WIDTH, DEPTH = 99, 100
PENDING = 1_000
LOOP = HEADER + "\n".join(
    [
        "- {step: fetch, tool: {kind: one}, next: {arcs: [{step: each}]}}",
        "- {step: each, tool: {kind: one}, loop: {in: '{{ workload.numbers }}', iterator: number, spec: {mode: parallel, max_in_flight: 100}}}",
    ]
)
ROWS: JsonValue = [{"n": n, "text": "x" * 80} for n in range(10_000)]
"""1 MB as JSON."""
WORKLOAD: JsonObject = {"applicant": "Ada Lovelace", "note": "x" * 200}
COMPLETION: JsonObject = {"status": "ok", "result": {"done": True}}


class PlaybookEngine(ProcessEngine):
    """The use cases of playbooks in this process."""

    dialect = PLAYBOOK_DIALECT

    async def prepare(self, text: str) -> None:
        """Store the playbook that is started."""
        await self.upload(PlaybookSource(text=text))

    async def start(self, workload: JsonObject = WORKLOAD) -> str:
        """A new execution; its id."""
        return await self.begin({"path": "bench", "workload": workload})

    async def patch(self, execution: str, value: int) -> int:
        """Change what admission looks at; how many tokens wait afterwards."""
        patch: JsonObject = {"ctx": {"n": value}}
        patched = await dialects.ask(PLAYBOOK_DIALECT, self.processes, self.caller, execution, "patch", patch)
        return sum(token.stage == "PENDING" for token in patched.instance.marking.tokens)

    async def claim(self, worker: str, types: tuple[str, ...]) -> tuple[ClaimedJob, ...]:
        """Up to a batch of jobs, which are of one type."""
        return await super().claim(worker, ("playbook:one",))

    async def complete(self, job: ClaimedJob) -> None:
        """What the pipeline comes to."""
        await self.finish(job, {**COMPLETION})

    async def begin_loop(self, elements: int, result: JsonValue) -> str:
        """An execution whose first step has had its result, before its loop over so many elements."""
        execution = await self.start({"numbers": list(range(elements))})
        [job] = await self.claim("fetch", ())
        await self.finish(job, {"status": "ok", "result": result})
        return execution


def build_fan_out() -> str:
    """A step with many arcs to steps with many arcs each."""
    leaves = [{"step": f"leaf{n}"} for n in range(DEPTH)]
    arcs = [{"step": f"mid{n}"} for n in range(WIDTH)]
    inclusive = {"mode": "inclusive"}
    steps = [{"step": "root", "next": {"spec": inclusive, "arcs": arcs}}]
    steps += [{"step": f"mid{n}", "next": {"spec": inclusive, "arcs": leaves}} for n in range(WIDTH)]
    return json.dumps({"metadata": {"name": "bench"}, "workflow": [*steps, *leaves]})


def build_gate() -> str:
    """Many tokens before a step that does not admit them."""
    inclusive = {"mode": "inclusive"}
    rules = [{"when": "{{ ctx.n > 1000000 }}", "then": {"allow": True}}, {"else": {"then": {"allow": False}}}]
    steps = [
        {"step": "root", "next": {"spec": inclusive, "arcs": [{"step": "mid"}] * 10}},
        {"step": "mid", "next": {"spec": inclusive, "arcs": [{"step": "gate"}] * (PENDING // 10)}},
        {"step": "gate", "spec": {"policy": {"admit": {"rules": rules}}}},
    ]
    return json.dumps({"metadata": {"name": "bench"}, "workflow": steps})


async def measure(action: Callable[[], Awaitable[object]]) -> tuple[float, float]:
    """Seconds that an action took, and of processor time."""
    wall, cpu = time.perf_counter(), time.process_time()
    await action()
    return time.perf_counter() - wall, time.process_time() - cpu


async def run(options: argparse.Namespace, console: Console) -> None:
    """All parts, and their figures."""
    playbooks, steps = list[Measured](), list[Measured]()
    show_machine(console)
    async with start_sides() as (runtime, _, database):
        for _ in range(options.rounds):
            engine = PlaybookEngine(runtime)
            await engine.prepare(FIVE)
            playbooks.append(await chains(engine, options.executions, database))
            step_engine = Engine(runtime)
            await step_engine.prepare()
            steps.append(await chains(step_engine, options.executions, database))
        title = f"{options.executions:,} executions of five steps, three for workers, in flight together"
        caption = "playbooks : step engine = {:.2f}"
        console.print(tabulate(title, {"playbooks": playbooks, "step engine": steps}, caption))
        engine = PlaybookEngine(runtime)
        await engine.prepare(build_fan_out())
        took = [await measure(engine.start) for _ in range(options.rounds)]
        tokens = WIDTH * DEPTH + WIDTH
        wall, cpu = (median(one[part] for one in took) for part in (0, 1))
        console.print(
            f"{tokens:,} tokens by arcs: {wall:.2f} s, {tokens / wall:,.0f} arcs/s, {cpu:.2f} s of processor time"
        )
        await compare_loops(runtime, options.elements, options.loops, console)
        engine = PlaybookEngine(runtime)
        await engine.prepare(build_gate())
        execution = await engine.start()
        spent = []
        for number in range(10 * options.rounds):
            pending = 0

            async def patch(value: int = number) -> None:
                nonlocal pending
                pending = await engine.patch(execution, value)

            spent.append(await measure(patch))
            if pending != PENDING:
                raise RuntimeError(f"{pending} tokens wait, not {PENDING}")
        wall, cpu = (median(one[part] for one in spent) for part in (0, 1))
        console.print(
            f"{PENDING:,} pending tokens asked again by a patch: {wall * 1000:.1f} ms, {cpu * 1000:.1f} ms of processor time"
        )


async def compare_loops(runtime: Runtime, elements: int, rounds: int, console: Console) -> None:
    """The same loop beside nothing and beside 1 MB, in turns."""
    took: dict[str, list[float]] = {"nothing": [], "a result of 1 MB": []}
    for _ in range(rounds):
        for (beside, seconds), result in zip(took.items(), ({}, {"rows": ROWS}), strict=True):
            engine = PlaybookEngine(runtime)
            await engine.prepare(LOOP)
            found = await iterate(engine, partial(engine.begin_loop, elements, result), elements)
            console.print(f"A loop beside {beside} {describe_loop(found, elements)}")
            seconds.append(found.took_s)
    alone, beside_rows = took.values()
    console.print(f"beside 1 MB : beside nothing = {median(beside_rows) / median(alone):.2f} (wanted: at most 1.2)")


def main() -> None:
    """Read the options and measure."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.playbooks", description=__doc__)
    parser.add_argument("--executions", type=int, default=1_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--elements", type=int, default=10_000)
    parser.add_argument("--loops", type=int, default=2, help="rounds of the two loops")
    uvloop.run(run(parser.parse_args(), Console(width=140)))


if __name__ == "__main__":
    main()
