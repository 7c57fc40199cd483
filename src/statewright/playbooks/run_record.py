"""What a run of a pipeline has done, as it is reported (:mod:`statewright.playbooks.dispatch`): its log, its patches,
and in the end its completion. Secrets of the keychain are masked in all of it.
"""

from collections import Counter
from typing import Final

from msgspec.structs import replace

from statewright.jsonval.codec import encode
from statewright.jsonval.values import JsonObject, JsonValue
from statewright.playbooks.dispatch import Dispatch
from statewright.playbooks.masking import list_secrets, mask
from statewright.playbooks.outcomes import Outcome
from statewright.playbooks.pipeline import PipelineEnd, PipelineState, Turn

MAX_LOG_ENTRIES: Final = 1_000
"""Of one run; what comes after them is counted."""
MAX_LOGGED_BYTES: Final = 64 * 1024
"""Of one result in the log."""


class RunRecord:
    """Of one run. Told of everything in the order in which it happens."""

    def __init__(self, dispatch: Dispatch) -> None:
        self._dispatch = dispatch
        self._secrets = list_secrets(dispatch.keychain)
        self._log: list[JsonValue] = [
            {"event": "step.started" if dispatch.element is None else "loop.iteration.started"}
        ]
        self._left_out = 0
        self._patches: list[JsonValue] = []
        self._visits: Counter[str] = Counter()
        self._taken = {"patches": 0, "log": 0}
        """What the service has acknowledged."""
        self._is_refused = False

    def begin_attempt(self, state: PipelineState) -> None:
        """The task that is next is about to be executed."""
        label = self._get_label(state)
        if state.attempts == 0:
            self._visits[label] += 1
            self._note("task.started", label)
        self._note("task.attempt.started", label, attempt=state.attempts + 1)

    def end_attempt(self, state: PipelineState, outcome: Outcome, *, duration_ms: int, ts: str) -> Outcome:
        """It was executed; ``state`` is that of before. The outcome with what was measured."""
        meta: JsonObject = {"attempt": state.attempts + 1, "duration_ms": duration_ms, "ts": ts}
        outcome = replace(outcome, meta=meta)
        event = "task.attempt.done" if outcome.is_ok else "task.attempt.failed"
        self._note(event, self._get_label(state), attempt=state.attempts + 1, outcome=_shorten(outcome))
        return outcome

    def take_turn(self, state: PipelineState, outcome: Outcome, turn: Turn) -> "JsonObject | None":
        """What the outcome led to; ``state`` is that of before. A progress report, if there are new patches: of all
        that the service has not acknowledged.
        """
        label = self._get_label(state)
        problems: list[JsonValue] = [problem.to_document() for problem in turn.problems]
        to = self._get_label(turn.state) if turn.do == "jump" and turn.end is None else None
        self._note("policy.task.evaluated", label, rule=turn.rule, action=turn.do, to=to, errors=problems)
        at = len(self._log)
        new = [mask({**patch.to_document(), "at": at}, self._secrets) for patch in turn.patches]
        self._patches += new
        report = self._build_report() if new and turn.end is None and not self._is_refused else None
        if turn.do != "retry" or turn.end is not None:
            self._note("task.done" if outcome.is_ok else "task.failed", label)
        return report

    def acknowledge(self, taken: JsonObject) -> None:
        """The service has answered a report. One that has not taken all of it is given the rest with the completion."""
        made = {"patches": len(self._patches), "log": len(self._log)}
        for name, most in made.items():
            count = taken.get(name)
            self._taken[name] = min(count, most) if isinstance(count, int) else 0
        self._is_refused = self._taken["patches"] != made["patches"]

    def _build_report(self) -> JsonObject:
        first, entry = self._taken["patches"], self._taken["log"]
        log = [mask(each, self._secrets) for each in self._log[entry:]]
        return {"patches": self._patches[first:], "from": first, "log": log, "logFrom": entry}

    def complete(self, end: PipelineEnd, results: JsonObject) -> JsonObject:
        """The completion; ``results``: the latest by label."""
        document: JsonObject = {"status": "ok" if end.is_ok else "error", "result": end.result}
        if end.error is not None:
            document["error"] = end.error
        document |= {"patches": self._patches, "results": results, "log": self._log, "logged": self._taken["log"]}
        if self._left_out:
            document["logEntriesLeftOut"] = self._left_out
        masked = mask(document, self._secrets)
        assert isinstance(masked, dict)  # noqa: S101 - an object stays one
        return masked

    def _get_label(self, state: PipelineState) -> str:
        return self._dispatch.tasks[state.counter].label

    def _note(self, event: str, label: str, **known: JsonValue) -> None:
        if len(self._log) < MAX_LOG_ENTRIES:
            self._log.append({"event": event, "task": label, "visit": self._visits[label], **known})
        else:
            self._left_out += 1


def _shorten(outcome: Outcome) -> JsonObject:
    """An outcome as the log has it: without what is said twice, and without a result that is too large."""
    document = outcome.to_document()
    del document["data"]
    if len(encode(document["result"])) > MAX_LOGGED_BYTES:
        document["result"] = None
        document["resultLeftOut"] = True
    return document
