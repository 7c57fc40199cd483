"""Playbooks and flows made up at random run on one service, while workers and the service are killed: each comes to
what the kernel in memory, and an evaluator that was written apart from it, come to.

What a flow comes to does not depend on the order in which tasks end. What a playbook does, does: its log says in which
order the service learned what, and in that order all is told to the kernel in memory and to the simulator. The three
logs have to be equal.

Twelve of each; ``STATEWRIGHT_TEST_NETS=300`` (``make nets``) runs so many of each, and kills so much more often.
"""

import asyncio
import os
import random
import re
import sys
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from functools import cached_property
from itertools import count
from pathlib import Path

import httpx

from statewright.flows import FlowGraph, compile_text
from statewright.jsonval.codec import encode
from statewright.playbooks.events import LogEvent
from statewright.playbooks.reading import read_playbook
from tests.builders import Json
from tests.database import connected
from tests.e2e.crashes import LEFTOVERS, NO_TLS
from tests.e2e.net_worker import REPORTED
from tests.e2e.program import Program, free_ports, started
from tests.unit.flows.oracle import Failed, Oracle, show
from tests.unit.flows.test_oracle import MAX_VISITS, write_flow
from tests.unit.playbooks.generated import FLAGS, SimPlaybook, make_playbook
from tests.unit.playbooks.oracle import Simulator
from tests.unit.playbooks.telling import tell
from tests.unit.playbooks.test_oracle import Duel

NETS = int(os.environ.get("STATEWRIGHT_TEST_NETS", "12"))
WORKERS = 3
WORKER_KILLS = max(NETS // 3, 4)
SERVICE_KILLS = max(NETS // 100, 1)
PATIENCE_S = 60.0 + 2 * NETS
ASK_EVERY_S = 0.2
PATCHED = 20
"""What clients set members of ``ctx`` to; nothing else does."""
EXECUTIONS, FLOWS = "/v1/executions", "/v1/flows/instances"
CHILD = "metadata: {name: other}\nworkflow: [{step: inside, tool: {kind: compute, x: '{{ workload.x }}'}}]"
FLOW_SETTINGS = {"maxVisits": MAX_VISITS, "concurrency": 2, "retries": 1}
OVERDUE = ("UPDATE process_child SET not_before = 0", "UPDATE process_child_end SET not_before = 0")
"""What a killed service has left to others, who would take it after ten seconds."""
JOBS = "SELECT count(*) FROM process_job"

COMPUTE: Json = {"kind": "compute"}
PAUSES: list[Json] = [*[{"kind": "wait", "seconds": 5}] * 2, {"kind": "playbook", "path": "other"}]
"""For which workers give their runs back; the kernel in memory and the simulator know nothing of it."""
MUST_OCCUR = ("join ", "incomplete ", "held ", " loop.done", " failed", "-")
"""What the playbooks must bring about, so that nothing is compared in vain."""

Where = tuple[str, int, int | None]
"""A step, the number of its run, and the element."""


def is_hard(playbook: SimPlaybook) -> bool | None:
    """Whether it has several runs at once, a parallel loop, and joins that fire behind others, where all ends well;
    None: hardly anything happens in it.
    """
    simulator, most = Simulator(playbook), 0
    while simulator.status == "running" and (open_runs := simulator.list_open()):
        most = max(most, len(open_runs))
        simulator.complete(open_runs[0], 1)
    if len(simulator.log) < 20:
        return None
    begun = [playbook.steps[name] for name, runs in simulator.counts.items() if runs]
    joins = {step.name for step in begun if f"join {step.name} " in "\n".join(simulator.log)}
    return (
        most > 2
        and any(step.loops and step.limit > 1 and step.items > 1 for step in begun)
        and any(arc.target in joins for step in begun if step.name in joins for arc in step.arcs or ())
    )


def choose_seeds(most: int) -> list[int]:
    """Of playbooks that the service accepts, half of which are hard."""
    chosen: dict[bool, list[int]] = {True: [], False: []}
    for seed in count():
        playbook = make_playbook(random.Random(seed))
        hard = is_hard(playbook)
        if hard is None or len(chosen[hard]) == most // 2 or read_playbook(encode(playbook.to_document())).errors:
            continue
        chosen[hard].append(seed)
        if len(chosen[True]) == len(chosen[False]) == most // 2:
            break
    return sorted(chosen[True] + chosen[False])


class RandomPlaybook:
    """A playbook, and the execution of it that the service runs."""

    def __init__(self, seed: int, dice: random.Random) -> None:
        self.seed, self.name = seed, f"net{seed}"
        self.duel = Duel(seed)
        self.execution = ""
        self._dice = dice
        self._acts = dice.randint(0, 3)
        """What others may still do to it."""
        self._ends: dict[str, Where] = {}
        """Of the runs and elements that others do, by their ids."""
        self._runs: dict[str, int] = {}
        """The numbers of runs."""
        self._jobs: dict[str, Json] = {}

    async def start(self, http: httpx.AsyncClient) -> None:
        document = {**self.duel.playbook.to_document(), "metadata": {"name": self.name}}
        for step in document["workflow"]:
            if step.get("tool") == COMPUTE and self._dice.random() < 0.4:
                step["tool"] = [COMPUTE, self._dice.choice(PAUSES), COMPUTE]
        stored = await http.post("/v1/playbooks", json=document)
        assert stored.status_code == 201, stored.text
        begun = await http.post(EXECUTIONS, json={"path": self.name})
        assert begun.status_code == 201, begun.text
        self.execution = begun.json()["id"]

    async def disturb(self, http: httpx.AsyncClient, status: str) -> None:
        """Do one thing from outside; nothing where it has ended well, or enough was done."""
        if not self._acts or status not in ("running", "waiting", "failed"):
            return
        self._acts -= 1
        path, body = self._choose_act(status)
        answered = await http.post(f"{EXECUTIONS}/{self.execution}/{path}", json=body)
        assert answered.status_code in (200, 204, 409), answered.text  # it may have ended meanwhile

    def _choose_act(self, status: str) -> tuple[str, Json]:
        chance = self._dice.random()
        if status == "failed":
            return "restart", None
        if chance < 0.1:
            return "cancel", {"reason": "enough"}
        if chance < 0.5 and status == "running":
            return "tokens", {"step": self._dice.choice(list(self.duel.playbook.steps)), "args": {"n": 2}}
        return "patch", {"ctx": {self._dice.choice(FLAGS): PATCHED}}

    async def check(self, http: httpx.AsyncClient) -> None:
        """Tell the kernel in memory and the simulator what the log tells, and compare all three."""
        found = (await http.get(f"{EXECUTIONS}/{self.execution}")).json()
        log = [read_event(one) async for one in read_log(http, self.execution)]
        for event in log:
            self._follow(event)
            self.duel.compare()
        simulator = self.duel.simulator
        assert re.sub("failed (child|lease_lost)$", "failed boom", "\n".join(tell(log)), flags=re.MULTILINE) == (
            "\n".join(simulator.log)
        )
        assert (found["status"], found["ctx"], found["results"]) == (simulator.status, simulator.ctx, simulator.results)
        assert found["branches"] == {"succeeded": simulator.well, "failed": simulator.badly}

    def _follow(self, event: LogEvent) -> None:
        """Have the same happen in memory, if the event is one that came from outside."""
        payload, run = event.payload, event.step_run_id or ""
        match event.type:
            case "step.scheduled" | "loop.iteration.scheduled":
                self._begin(event, run)
            case "run.resumed":
                self._jobs[str(payload["token"])] = payload["job"]
            case "step.done" | "loop.iteration.done" if run in self._ends:
                assert payload["output"] == self._jobs.get(run, payload["output"]), "the result of another job"
                self.duel.complete(self._ends[run], payload["output"])
            case "step.failed" | "loop.iteration.failed" if run in self._ends:
                error = payload["error"]
                assert isinstance(error, dict)
                if error["kind"] == "ctx_conflict":
                    self.duel.complete(self._ends[run], 0)
                    return
                is_reported = error["kind"] == "boom"
                assert not is_reported or error["message"] == self._jobs[run], "the error of another job"
                self.duel.fail(self._ends[run])
            case "ctx.patch.held":
                self.duel.report(self._ends[run], read_changes(event))
            case "ctx.patched" if self._is_report(event, run):
                self.duel.report(self._ends[run], read_changes(event))
            case "ctx.patched" if payload["origin"] is None:
                self.duel.patch(read_changes(event))
            case "token.created" if payload["cause"] == "inject":
                args = payload["args"]
                assert isinstance(args, dict)
                self.duel.inject(str(event.step), args)
            case "execution.cancelled":
                self.duel.cancel()
            case "execution.restarted":
                self.duel.restart()
            case _:
                pass

    def _begin(self, event: LogEvent, run: str) -> None:
        step, payload = str(event.step), event.payload
        if "job" in payload:
            self._jobs[run] = payload["job"]
        if event.iteration is None:
            self._runs[run] = int(str(payload["run"]))
            if "job" in payload and not self.duel.playbook.steps[step].loops:
                self._ends[run] = (step, self._runs[run], None)
        else:
            self._ends[run] = (step, self._runs[str(payload["loop"])], event.iteration)

    def _is_report(self, event: LogEvent, run: str) -> bool:
        """Whether a worker says so now, and did not before, when it was held back."""
        if run not in self._ends or not set(read_changes(event).values()) <= set(REPORTED):
            return False
        name, _, element = self._ends[run]
        return element is None or self.duel.playbook.steps[name].limit == 1


def read_changes(event: LogEvent) -> dict[str, Json]:
    changes = event.payload["changes"]
    assert isinstance(changes, dict)
    return dict(changes)


async def read_log(http: httpx.AsyncClient, execution: str) -> AsyncIterator[Json]:
    after = 0
    while items := (await http.get(f"{EXECUTIONS}/{execution}/events", params={"after": after})).json()["items"]:
        for item in items:
            yield item
        after = items[-1]["seq"]


def read_event(item: Json) -> LogEvent:
    """An entry of the log as the kernel in memory has it."""
    return LogEvent(
        type=item["event_type"],
        entity_type=item["entity_type"],
        step=item.get("step"),
        step_run_id=item.get("step_run_id"),
        iteration=item.get("iteration"),
        payload=item["payload"],
    )


class RandomFlow:
    """A flow, and the instance of it that the service runs."""

    def __init__(self, number: int) -> None:
        dice = random.Random(1_000_000_000 + number)
        self.name = f"flow{number}"
        self._text = write_flow(dice)
        self._input: Json = dice.choice([{}, {"n": 1}, [{"n": 5}, {"m": 2}], []])
        self._is_to_stop = dice.random() < 0.3
        self.instance = ""

    @cached_property
    def graph(self) -> FlowGraph:
        return compile_text(self._text)

    async def start(self, http: httpx.AsyncClient) -> None:
        body = {"id": self.name, "source": self._text, "settings": FLOW_SETTINGS}
        stored = await http.post("/v1/flows/definitions", json=body)
        assert stored.status_code == 201, stored.text
        begun = await http.post(FLOWS, json={"definitionId": self.name, "input": self._input})
        assert begun.status_code == 201, begun.text
        self.instance = begun.json()["id"]

    async def disturb(self, http: httpx.AsyncClient, found: Json) -> None:
        """Restart what stopped on the way, and now and then stop one that runs."""
        if is_stopped_on_the_way(found):
            verb = "restart"
        elif self._is_to_stop and found["status"] == "RUNNING":
            self._is_to_stop, verb = False, "terminate"
        else:
            return
        answered = await http.post(f"{FLOWS}/{self.instance}/{verb}")
        assert answered.status_code in (200, 204, 409), answered.text

    async def check(self, http: httpx.AsyncClient) -> None:
        found = (await http.get(f"{FLOWS}/{self.instance}")).json()
        oracle = Oracle(self.graph, MAX_VISITS)
        try:
            result = oracle.run(self._input)
        except Failed:
            assert found["status"] == "FAILED", self._text
            reasons = [place["reason"] for place in found["failedNodes"]]
            assert all(reason.startswith(("MERGE_TYPE", "VISIT_LIMIT")) for reason in reasons), self._text
            return
        assert (found["status"], show(found["result"])) == ("COMPLETED", show(result)), self._text
        assert Counter([one async for one in self._list_done(http)]) == Counter(oracle.asked), self._text

    async def _list_done(self, http: httpx.AsyncClient) -> AsyncIterator[tuple[int, str]]:
        """The tasks that were done, with what they were given."""
        for page in count():
            found = await http.get(f"{FLOWS}/{self.instance}/history", params={"page": page, "pageSize": 1000})
            lines = found.json()["items"]
            for line in lines:
                node = self.graph.nodes[line["node"]]
                is_whole = node.is_iterated and "element" not in line
                if node.kind == "task" and not is_whole and line["status"] == "COMPLETED":
                    yield line["node"], show(line["input"])
            if not lines:
                return


def is_stopped_on_the_way(found: Json) -> bool:
    """Whether a task failed that may end well the next time, or it was stopped from outside."""
    reasons = [place.get("reason", "") for place in found.get("failedNodes", ())]
    return bool(found["status"] == "TERMINATED" or any("boom" in reason for reason in reasons))


@dataclass
class Nets:
    """All of them, and what runs them."""

    url: str
    playbooks: list[RandomPlaybook]
    flows: list[RandomFlow]
    spawned: Iterator[int] = field(default_factory=count)
    kills: int = 0

    @asynccontextmanager
    async def connect(self) -> AsyncIterator[httpx.AsyncClient]:
        async with httpx.AsyncClient(base_url=self.url, verify=NO_TLS, trust_env=False, timeout=30) as http:
            yield http

    async def start_all(self) -> None:
        async with self.connect() as http:
            stored = await http.post("/v1/playbooks", content=CHILD)
            assert stored.status_code == 201, stored.text
            for net in (*self.playbooks, *self.flows):
                await net.start(http)

    async def work(self, dice: random.Random) -> None:
        """One worker after the other, each killed after so much; the last until it is cancelled."""
        while True:
            worker = await asyncio.create_subprocess_exec(
                sys.executable,
                *("-m", "tests.e2e.net_worker", self.url, str(next(self.spawned))),
                stdout=asyncio.subprocess.PIPE,
            )
            assert worker.stdout is not None
            try:
                lines = dice.randint(5, 60)
                while await worker.stdout.readline():
                    lines -= 1
                    if lines <= 0 and self.kills < WORKER_KILLS:
                        self.kills += 1
                        break
                else:
                    raise AssertionError("a worker ended by itself")
            finally:
                with suppress(ProcessLookupError):
                    worker.kill()
                await worker.wait()

    async def disturb(self) -> int:
        """Look at all that run, do what is to be done to some from outside, and count those."""
        async with self.connect() as http:
            statuses = {one["id"]: one["status"] for one in await self._list(http, EXECUTIONS)}
            found = {one["id"]: one for one in await self._list(http, FLOWS)}
            for playbook in self.playbooks:
                await playbook.disturb(http, statuses[playbook.execution])
            for flow in self.flows:
                await flow.disturb(http, found[flow.instance])
            open_flows = [one for one in found.values() if one["status"] != "COMPLETED" and is_open(one)]
            return len(open_flows) + sum(status == "running" for status in statuses.values())

    async def _list(self, http: httpx.AsyncClient, path: str) -> list[Json]:
        items: list[Json] = []
        for page in count():
            found = (await http.get(path, params={"page": page, "pageSize": 200})).json()["items"]
            items += found
            if not found:
                return items
        raise AssertionError

    async def finish(self, database: str) -> None:
        """Until nothing runs any more."""
        async with connected(database) as connection, asyncio.timeout(PATIENCE_S):
            for overdue in OVERDUE:
                await connection.execute(overdue)
            for _ in range(int(PATIENCE_S / ASK_EVERY_S)):
                if not (await self.disturb() or await connection.fetchval(JOBS)):
                    break
                await asyncio.sleep(ASK_EVERY_S)
            assert await connection.fetchval(LEFTOVERS) == 0

    async def check(self) -> None:
        async with self.connect() as http:
            for playbook in self.playbooks:
                try:
                    await playbook.check(http)
                except AssertionError as different:
                    raise AssertionError(f"seed {playbook.seed}: {different}") from different
            for flow in self.flows:
                await flow.check(http)
        lines = "\n".join(line for playbook in self.playbooks for line in playbook.duel.simulator.log)
        assert all(kind in lines for kind in MUST_OCCUR), lines


def is_open(found: Json) -> bool:
    return found["status"] != "FAILED" or is_stopped_on_the_way(found)


async def test_random_nets_come_to_the_same_as_in_memory(tmp_path: Path, database: str) -> None:
    dice, ports = random.Random(15), free_ports("HTTP", "GRPC", "ADMIN")
    nets = Nets(
        url=f"http://127.0.0.1:{ports['HTTP']}",
        playbooks=[RandomPlaybook(seed, random.Random(seed)) for seed in choose_seeds(NETS)],
        flows=[RandomFlow(number) for number in range(NETS)],
    )
    settings = {"POSTGRES_URL": database, "SUPPRESS_BANNER": "true", "STEPS_SWEEP_INTERVAL": "200ms"}
    workers: list[asyncio.Task[None]] = []
    try:
        for number in range(SERVICE_KILLS + 1):
            with started(tmp_path, ports=ports, **settings) as program:
                await asyncio.to_thread(program.ready)
                if number == 0:
                    await nets.start_all()
                    workers = [asyncio.create_task(nets.work(dice)) for _ in range(WORKERS)]
                if number < SERVICE_KILLS:
                    await kill_in_between(program, nets, dice)
                    continue
                await nets.finish(database)
                await nets.check()
                assert nets.kills == WORKER_KILLS
                assert program.terminate() == 0
    finally:
        for worker in workers:
            worker.cancel()
        ended = await asyncio.gather(*workers, return_exceptions=True)
        assert [error for error in ended if not isinstance(error, asyncio.CancelledError)] == []


async def kill_in_between(program: Program, nets: Nets, dice: random.Random) -> None:
    """Kill the service while workers are at work."""
    goal = nets.kills + max(WORKER_KILLS // (2 * SERVICE_KILLS + 2), 1)
    async with asyncio.timeout(PATIENCE_S):
        while nets.kills < goal:
            await nets.disturb()
    program.kill()
