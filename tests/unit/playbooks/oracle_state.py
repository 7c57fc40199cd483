"""What the simulator knows of an execution, and what it does with tokens and joins (``oracle``)."""

from dataclasses import dataclass, field
from typing import Any

from tests.unit.playbooks.generated import SimPlaybook, SimStep


@dataclass
class SimToken:
    number: int
    step: str
    args: dict[str, Any]
    source: str | None = None
    is_pending: bool = False
    is_final: bool = False
    event: str | None = None


@dataclass
class SimRun:
    step: SimStep
    number: int
    args: dict[str, Any]
    is_final: bool
    serial: int
    """Among all runs."""
    results: dict[int, Any] = field(default_factory=dict)
    errors: dict[int, str] = field(default_factory=dict)
    held: dict[int, list[dict[str, Any]]] = field(default_factory=dict)
    """Of the elements that run."""
    written: dict[str, Any] = field(default_factory=dict)
    begun: int = 0


class SimState:
    """An execution: plain lists, looked through from the beginning every time."""

    def __init__(self, playbook: SimPlaybook) -> None:
        self.playbook = playbook
        self.log: list[str] = []
        self.status = "running"
        self.ctx: dict[str, Any] = {}
        self.results: dict[str, Any] = {}
        self.tokens: list[SimToken] = []
        self.waiting: dict[str, list[SimToken]] = {name: [] for name in playbook.steps}
        self.arrived: dict[str, set[str]] = {}
        """Of rounds that have fired."""
        self.runs: list[SimRun] = []
        self.failed_runs: list[SimRun] = []
        self.lost_rounds: list[list[SimToken]] = []
        """Of joins that could not be completed."""
        self.counts: dict[str, int] = dict.fromkeys(playbook.steps, 0)
        self.well = self.badly = self.made = self.overlooked = 0
        self.final: str | None = None
        self.has_gaps = self.gives_up = False

    @property
    def _drains(self) -> bool:
        return self.playbook.failure_mode == "fail_fast" and self.badly > self.overlooked

    def _make(
        self,
        name: str,
        args: dict[str, Any],
        source: str | None,
        *,
        goes_past: bool = False,
        is_final: bool = False,
        event: str | None = None,
    ) -> None:
        step = self.playbook.steps[name]
        token = SimToken(self.made, name, args, source, is_final=is_final, event=event)
        self.made += 1
        self.log.append(f"+{name}{args if not is_final else ''}")
        if self._drains and not is_final:
            self._drop(token, "fail_fast")
        elif step.sources and not goes_past and source in step.sources:
            self.waiting[name].append(token)
            self._go_on(step)
        else:
            self.tokens.append(token)

    def _drop(self, token: SimToken, reason: str, *, is_well: bool = True) -> None:
        self.log.append(f"-{token.step} {reason}")
        self.well += is_well

    def _list_heads(self, step: SimStep) -> list[SimToken]:
        heads: dict[str | None, SimToken] = {}
        for token in self.waiting[step.name]:
            heads.setdefault(token.source, token)
        return sorted(heads.values(), key=lambda token: token.number)

    def _go_on(self, step: SimStep) -> None:
        while True:
            heads = self._list_heads(step)
            if step.name not in self.arrived:
                if len(heads) < step.count:
                    return
                self._fire(step, heads[: step.count])
                self.arrived[step.name] = {str(token.source) for token in heads[: step.count]}
            else:
                late = [token for token in heads if token.source not in self.arrived[step.name]]
                if not late:
                    return
                for token in late:
                    self.waiting[step.name].remove(token)
                    self.arrived[step.name].add(str(token.source))
                    self.log.append(f"absorb {step.name}")
            if len(self.arrived[step.name]) == len(step.sources):
                del self.arrived[step.name]

    def _fire(self, step: SimStep, tokens: list[SimToken]) -> None:
        for token in tokens:
            self.waiting[step.name].remove(token)
        in_order = sorted(tokens, key=lambda token: step.sources.index(str(token.source)))
        args: dict[str, Any] = {}
        for token in in_order:
            args = {**args, **token.args}
        self.log.append(f"join {step.name} {[token.source for token in in_order]}")
        self.tokens.append(SimToken(self.made, step.name, args))
        self.made += 1

    def _set(self, changes: dict[str, Any]) -> None:
        self.ctx = {**self.ctx, **changes}
        self.log.append(f"set {changes}")
