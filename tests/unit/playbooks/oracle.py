"""A simulator of playbooks, written from the rules and apart from the kernel: plain lists, looked through from the
beginning every time. It says what an execution decides, in the words of ``telling``.
"""

from typing import Any

from tests.unit.playbooks.generated import SimArc, SimPlaybook, SimStep, Unevaluable
from tests.unit.playbooks.oracle_state import SimRun, SimState, SimToken


class Simulator(SimState):
    def __init__(self, playbook: SimPlaybook) -> None:
        super().__init__(playbook)
        self._make(playbook.entry, {}, None)
        self._settle()

    # What comes from outside.

    def list_open(self) -> list[tuple[str, int, int | None]]:
        """Runs and elements that are to be done: step, number of the run, element."""
        return [
            (run.step.name, run.number, element)
            for run in self.runs
            for element in (sorted(run.held) if run.step.loops else [None])
        ]

    def complete(self, where: tuple[str, int, int | None], value: Any) -> None:
        run, element = self._find(where), where[2]
        if element is None:
            self._finish(run, value)
        elif conflict := self._release(run, element):
            self._end_element(run, element, None, conflict)
        else:
            self._end_element(run, element, value, None)
        self._settle()

    def fail(self, where: tuple[str, int, int | None]) -> None:
        run, element = self._find(where), where[2]
        if element is None:
            self._fail(run, "boom")
        else:
            self._release(run, element)
            self._end_element(run, element, None, "boom")
        self._settle()

    def report(self, where: tuple[str, int, int | None], changes: dict[str, Any]) -> None:
        run, element = self._find(where), where[2]
        if element is not None and run.step.limit > 1:
            run.held[element].append(changes)
            self.log.append(f"held {changes}")
        else:
            self._set(changes)
        self._settle()

    def patch(self, changes: dict[str, Any]) -> None:
        self._set(changes)
        self._settle()

    def inject(self, step: str, args: dict[str, Any]) -> None:
        self._make(step, args, None)
        self._settle()

    def cancel(self) -> None:
        self.status = "cancelled"
        self.log.append("cancelled")

    def restart(self) -> None:
        if not self.failed_runs:
            return
        self.status = "running"
        again, self.failed_runs = sorted(self.failed_runs, key=lambda run: run.serial), []
        lost, self.lost_rounds = self.lost_rounds, []
        self.badly -= len(lost)
        for run in again:
            if run.is_final:
                self.final = "again"
            else:
                self.badly -= 1
        self.gives_up = False
        self.overlooked = self.badly
        for run in again:
            if not run.is_final:
                self._make(run.step.name, run.args, None, goes_past=True)
        for token in [token for tokens in lost for token in tokens]:
            self._make(token.step, token.args, token.source, event=token.event)
        self._settle()

    def _find(self, where: tuple[str, int, int | None]) -> SimRun:
        return next(run for run in self.runs if (run.step.name, run.number) == where[:2])

    # Turns.

    def _settle(self) -> None:
        while self.status in ("running", "waiting"):
            if self._take_turn() or self._conclude():
                continue
            return

    def _take_turn(self) -> bool:
        if len(self.runs) >= self.playbook.capacity:
            return False
        for token in sorted(self.tokens, key=lambda token: token.number):
            if token.is_final or self._is_admitted(token):
                self.tokens.remove(token)
                self.status = "running"
                self._begin(token)
                return True
        return False

    def _is_admitted(self, token: SimToken) -> bool:
        step = self.playbook.steps[token.step]
        if not step.rules and step.otherwise is None:
            return True
        if self._decide(step, token):
            return True
        if not token.is_pending:
            self.log.append(f"deny {token.step}")
        token.is_pending = True
        if step.discards:
            self.tokens.remove(token)
            self._drop(token, "denied")
        return False

    def _decide(self, step: SimStep, token: SimToken) -> bool:
        env = {"ctx": self.ctx, "args": token.args, "results": self.results, "event": token.event}
        for test, allow in step.rules:
            try:
                if test.holds(env):
                    return allow
            except Unevaluable:
                return False
        return bool(step.otherwise)

    # Runs.

    def _begin(self, token: SimToken) -> None:
        step = self.playbook.steps[token.step]
        self.counts[step.name] += 1
        run = SimRun(step, self.counts[step.name], token.args, token.is_final, sum(self.counts.values()))
        self.log.append(f"run {step.name}#{run.number}")
        if run.number > self.playbook.max_per_step or sum(self.counts.values()) > self.playbook.max_runs:
            self.log.append(f"{step.name} failed")
            self._end_badly(step.name, run)
            return
        self.runs.append(run)
        if step.kind == "route":
            self._finish(run, None)
        elif step.kind == "noop":
            self._do_nothing(run)
        elif step.loops:
            self._begin_elements(run)

    def _do_nothing(self, run: SimRun) -> None:
        if run.step.flag is not None:
            self._set({run.step.flag: 1})
        if run.step.noop_fails:
            self._fail(run, "policy_fail")
        else:
            self._finish(run, None)

    def _begin_elements(self, run: SimRun) -> None:
        step = run.step
        stops = bool(run.errors) and not step.goes_on
        while run.begun < step.items and len(run.held) < step.limit and not stops:
            run.held[run.begun] = []
            self.log.append(f"[{run.begun}]")
            run.begun += 1
        if run.held or (run.begun < step.items and not stops):
            return
        counts = {
            "total": step.items,
            "succeeded": len(run.results),
            "failed": len(run.errors),
            "results": [run.results.get(number) for number in range(step.items)],
        }
        if stops:
            self._fail(run, "loop")
        else:
            self.has_gaps |= bool(run.errors)
            self._finish(run, counts["results"])

    def _release(self, run: SimRun, element: int) -> str | None:
        changes = run.held[element]
        run.held[element] = []
        if any(key in run.written and run.written[key] != each[key] for each in changes for key in each):
            return "ctx_conflict"
        for each in changes:
            self._set(each)
            run.written |= each
        return None

    def _end_element(self, run: SimRun, element: int, value: Any, error: str | None) -> None:
        del run.held[element]
        if error is None:
            run.results[element] = value
            self.log.append(f"[{element}] done")
        else:
            run.errors[element] = error
            self.log.append(f"[{element}] failed {error}")
        self._begin_elements(run)

    # The end of a run.

    def _finish(self, run: SimRun, value: Any) -> None:
        step = run.step
        self.results = {**self.results, step.name: value}
        if step.flag is not None and step.kind != "noop":
            self._set({step.flag: 1})
        self.runs.remove(run)
        event = "loop.done" if step.loops else "step.done"
        self.log.append(f"{step.name} {event.removeprefix('step.')}")
        if run.is_final:
            self.final = "done"
            return
        if self._drains:
            self.well += 1
            return
        arcs, is_broken = self._choose(run, event)
        if arcs:
            self._send(step, arcs, event)
        elif is_broken or (step.arcs and self.playbook.no_next_is_error):
            self._end_badly(step.name)
        else:
            self.well += 1

    def _fail(self, run: SimRun, error: str) -> None:
        step = run.step
        self.runs.remove(run)
        self.log.append(f"{step.name} failed")
        if run.is_final or self._drains:
            self._end_badly(step.name, run)
            return
        arcs, _ = self._choose(run, "step.failed")
        if any(arc.when is not None for arc in arcs):
            self._send(step, arcs, "step.failed")
            return
        flags = [arc.flag for arc in arcs if arc.flag is not None]
        for flag in flags:
            self._set({flag: 1})
        self._end_badly(step.name, run)
        for arc in arcs:
            self._make(arc.target, arc.args, step.name, event="step.failed")

    def _choose(self, run: SimRun, event: str) -> tuple[list[SimArc], bool]:
        step = run.step
        if step.arcs is None:
            return [], False
        env = {"ctx": self.ctx, "args": run.args, "results": self.results, "event": event}
        taken, is_broken = [], False
        for arc in step.arcs:
            try:
                if arc.when is None or arc.when.holds(env):
                    taken.append(arc)
            except Unevaluable:
                is_broken = True
            if taken and not step.inclusive:
                break
        self.log.append(f"next {step.name}→{','.join(arc.target for arc in taken) or 'none'}")
        return taken, is_broken

    def _send(self, step: SimStep, arcs: list[SimArc], event: str) -> None:
        for arc in arcs:
            if arc.flag is not None:
                self._set({arc.flag: 1})
        for arc in arcs:
            self._make(arc.target, arc.args, step.name, event=event)

    def _end_badly(self, step: str, run: SimRun | None = None) -> None:
        self.log.append(f"{step} fails its branch")
        if run is not None:
            self.failed_runs.append(run)
        if run is not None and run.is_final:
            self.final = "failed"
        else:
            self.badly += 1
        if not self._drains:
            return
        left = [token for token in self.tokens if not token.is_final]
        left += [token for tokens in self.waiting.values() for token in tokens]
        self.tokens = [token for token in self.tokens if token.is_final]
        self.waiting = {name: [] for name in self.waiting}
        self.arrived = {}
        for token in sorted(left, key=lambda token: token.number):
            self._drop(token, "fail_fast")

    # The end.

    def _conclude(self) -> bool:
        if self.runs or any(not token.is_pending for token in self.tokens):
            return False
        if self.tokens:
            return self._resolve_pending()
        for name, tokens in self.waiting.items():
            if tokens:
                self._resolve_joins()
                return True
            assert name
        final = self.playbook.final
        if final is not None and (self.final == "again" or (self.final is None and not self.counts[final])):
            self.final = "running"
            self.status = "running"
            self._make(final, {}, None, goes_past=True, is_final=True)
            return True
        self.status = self._judge()
        self.log.append(self.status)
        return False

    def _resolve_pending(self) -> bool:
        if self.playbook.on_quiescence == "wait":
            if self.status != "waiting":
                self.log.append("WAITING")
            self.status = "waiting"
            return False
        pending, self.tokens = sorted(self.tokens, key=lambda token: token.number), []
        if self.playbook.on_quiescence == "discard":
            for token in pending:
                self._drop(token, "quiescence")
            return True
        self.gives_up = True
        while pending:
            token = pending.pop(0)
            self._drop(token, "PENDING_TOKENS", is_well=False)
            self.tokens = pending
            self._end_badly(token.step)
            pending = self.tokens
        return True

    def _resolve_joins(self) -> None:
        """What may fire, one round of it, upstream before downstream; else all others. The oldest token's first."""
        names = [
            name for _, name in sorted((tokens[0].number, name) for name, tokens in self.waiting.items() if tokens)
        ]
        may_fire = [name for name in names if name in self.arrived or self.playbook.steps[name].left_over == "fire"]
        if may_fire:
            first = min(may_fire, key=self.playbook.ranks.__getitem__)
            self._conclude_join(first, self.playbook.steps[first])
            return
        for name in names:
            step = self.playbook.steps[name]
            while heads := self._list_heads(step):
                self.log.append(f"incomplete {name}/{step.left_over}")
                for token in heads:
                    self.waiting[name].remove(token)
                    self._drop(token, "INCOMPLETE_JOIN", is_well=step.left_over == "discard")
                if step.left_over == "fail":
                    self.lost_rounds.append(heads)
                    self._end_badly(name)

    def _conclude_join(self, name: str, step: SimStep) -> None:
        if name in self.arrived:
            del self.arrived[name]
            self._go_on(step)
        else:
            self.log.append(f"incomplete {name}/{step.left_over}")
            self._fire(step, self._list_heads(step))

    def _judge(self) -> str:
        playbook = self.playbook
        if self.gives_up or (self.final == "failed" and playbook.final_fails):
            return "failed"
        if self.badly:
            return "partial" if playbook.failure_mode == "best_effort" and self.well else "failed"
        return "partial" if self.final == "failed" or self.has_gaps else "success"
