"""The kernel against a simulator that was written apart from it, on playbooks made up at random: equal logs after every
event, and the log always gives the state back.
"""

import os
import random
from typing import Any

import pytest

from statewright.jsonval.codec import decode, encode
from statewright.net import ExecutionId, marking_from_document, marking_to_document
from statewright.net.effects import TaskPaused
from statewright.playbooks import compile_playbook
from statewright.playbooks.compiling import compile_net
from statewright.playbooks.running import LocalExecution, OpenRun
from tests.unit.playbooks.generated import FLAGS, make_playbook
from tests.unit.playbooks.oracle import Simulator
from tests.unit.playbooks.replay import replay, sort_tokens
from tests.unit.playbooks.telling import tell

PLAYBOOKS = int(os.environ.get("STATEWRIGHT_TEST_PLAYBOOKS", "5000"))
SHARES = 4
"""Tests among which they are divided, so that several processes do them."""
EVENTS = 14
EVENT_KINDS = [*["complete"] * 4, "fail", *["report"] * 3, "patch", "inject", "ask", "cancel"]
MUST_OCCUR = (
    "join ",
    "absorb ",
    "incomplete ",
    "deny ",
    "held ",
    "WAITING",
    "ctx_conflict",
    " loop.done",
    "→none",
    " denied",
    " quiescence",
    " fail_fast",
    " PENDING_TOKENS",
    " INCOMPLETE_JOIN",
    "success",
    "partial",
    "failed",
    "cancelled",
)
"""What the playbooks that are made up must bring about, so that nothing is compared in vain."""


class Duel:
    """One playbook, played by both."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.playbook = make_playbook(self.chance)
        self.simulator = Simulator(self.playbook)
        self.compiled = compile_net(compile_playbook(self.playbook.to_document()))
        self.execution = LocalExecution(self.compiled)
        self.told = self.foretold = 0
        """How much of both logs was compared before."""

    def compare(self) -> None:
        assert tell(self.execution.log[self.told :]) == self.simulator.log[self.foretold :]
        self.told, self.foretold = len(self.execution.log), len(self.simulator.log)
        assert self.execution.status == self.simulator.status
        data = self.execution.marking.data
        assert (data["ctx"], data["results"]) == (self.simulator.ctx, self.simulator.results)
        tally = self.execution.marking.tally
        assert (tally.succeeded, tally.failed) == (self.simulator.well, self.simulator.badly)

    def store(self) -> None:
        """Now and then the kernel goes on with what was written, as a service does that was killed."""
        if self.chance.random() < 0.3:
            marking = self.execution.marking
            document = decode(encode(marking_to_document(marking)))
            assert isinstance(document, dict)
            self.execution.marking = marking_from_document(document, marking.data)
            assert self.execution.marking == marking

    def find_child(self, where: tuple[str, int, int | None]) -> ExecutionId:
        """The same element at the kernel, which awaits another playbook."""
        step, attempt, element = where
        for token in self.execution.marking.tokens:
            if (token.node, token.attempt, token.element) == where and token.id in self.execution.children:
                return token.id
        raise AssertionError(f"element {element} of {step}#{attempt} awaits nothing")

    def find(self, where: tuple[str, int, int | None]) -> OpenRun:
        """The same run at the kernel."""
        for run in self.execution.open:
            attempt = next(token.attempt for token in self.execution.marking.tokens if token.id == run.run_id)
            if (run.step, attempt, run.element) == where:
                return run
        raise AssertionError(f"{where} does not run")

    def play(self) -> bool:
        """One event; False when nothing can happen any more."""
        simulator, execution, chance = self.simulator, self.execution, self.chance
        if simulator.status in ("success", "partial", "cancelled"):
            return False
        if simulator.status == "failed":
            self.restart()
            return bool(execution.effects)
        kind = chance.choice(EVENT_KINDS)
        choices = simulator.list_open()
        changes: dict[str, Any] = {chance.choice(FLAGS): chance.choice([0, 1, 2])}
        if kind in ("complete", "fail", "report") and choices:
            self._work(kind, chance.choice(choices), changes)
        elif kind == "inject":
            self.inject(chance.choice(list(self.playbook.steps)), {"n": 2})
        elif kind == "cancel" and chance.random() < 0.2:
            self.cancel()
        elif kind == "ask":
            execution.reconsider()
        else:
            self.patch(changes)
        return True

    def _work(self, kind: str, where: tuple[str, int, int | None], changes: dict[str, Any]) -> None:
        if self.playbook.steps[where[0]].kind != "children" and self.chance.random() < 0.1:
            self.pause(where)
        if kind == "report" and self.playbook.steps[where[0]].kind != "children":
            self.report(where, changes)
        elif kind == "fail":
            self.fail(where)
        else:
            self.complete(where, self.chance.randint(0, 9))

    def pause(self, where: tuple[str, int, int | None]) -> None:
        """A run is given back and goes on, of which only the kernel knows."""
        run = self.find(where)
        if self.chance.random() < 0.5:
            self.execution.play(TaskPaused(task=run.task, until=self.execution.clock.now + 1))
            self.store()
            self.execution.fire_timers(self.execution.clock.now + 1)
        else:
            self.execution.play(TaskPaused(task=run.task, net="other"))
            self.store()
            self.execution.end_child(ExecutionId(run.run_id), "what it gave")
        self.execution.complete(run.task, "once more")

    def complete(self, where: tuple[str, int, int | None], value: Any) -> None:
        """A run or an element ends well; what is told twice changes nothing."""
        if self.playbook.steps[where[0]].kind == "children":
            child = self.find_child(where)
            self.execution.end_child(child, value)
            self.execution.end_child(child, "once more")
        else:
            task = self.find(where).task
            self.execution.complete(task, value)
            self.execution.complete(task, value)
        self.simulator.complete(where, value)

    def fail(self, where: tuple[str, int, int | None]) -> None:
        """A run or an element ends badly."""
        if self.playbook.steps[where[0]].kind == "children":
            self.execution.end_child(self.find_child(where), error={"kind": "boom"})
        else:
            self.execution.fail(self.find(where).task, {"kind": "boom"})
        self.simulator.fail(where)

    def report(self, where: tuple[str, int, int | None], changes: dict[str, Any]) -> None:
        """A run that goes on sets members of ``ctx``."""
        self.execution.report(self.find(where).task, changes)
        self.simulator.report(where, changes)

    def inject(self, step: str, args: dict[str, Any]) -> None:
        """One more token."""
        self.execution.inject(step, args)
        self.simulator.inject(step, args)

    def patch(self, changes: dict[str, Any]) -> None:
        """Others set members of ``ctx``."""
        self.execution.patch(changes)
        self.simulator.patch(changes)

    def restart(self) -> None:
        """Begin what failed again."""
        self.execution.restart()
        self.simulator.restart()

    def cancel(self) -> None:
        """Stop for good."""
        self.execution.cancel()
        self.simulator.cancel()


@pytest.mark.parametrize("share", range(SHARES))
def test_generated_playbooks_run_as_the_simulator_says(share: int):
    missing = set(MUST_OCCUR)
    for seed in range(share, PLAYBOOKS, SHARES):
        duel = Duel(seed)
        try:
            duel.compare()
            for _ in range(EVENTS):
                if not duel.play():
                    break
                duel.compare()
                duel.store()
            marking = duel.execution.marking
            assert sort_tokens(replay(duel.compiled, duel.execution.log)) == sort_tokens(marking)
        except AssertionError as different:
            raise AssertionError(f"seed {seed}: {different}") from different
        missing -= {kind for kind in missing if any(kind in line for line in duel.simulator.log)}
    assert not missing
