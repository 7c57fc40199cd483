"""What runs report while they go on, and what becomes of it when they begin again
(docs/reference/executions.md#reports-of-runs).
"""

from statewright.jsonval.codec import decode, encode
from statewright.jsonval.values import JsonObject, JsonValue
from statewright.net import Moment
from statewright.net.effects import EnqueueTask
from statewright.playbooks.context import CTX
from statewright.playbooks.execution import Execution, execution_from_document, execution_to_document
from statewright.playbooks.operations import (
    Applied,
    build_payload,
    complete_job,
    fail_job,
    patch_context,
    report_progress,
    start_execution,
)
from statewright.playbooks.process_language import PLAYBOOKS, PlaybookReports
from statewright.playbooks.run_record import MAX_CHARS, MAX_PATCHES
from statewright.playbooks.source import PlaybookProcess, PlaybookSource, compile_source
from statewright.processes.language import JobPlace, NewInstance, Rejection

HEADER = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: case}\n"
TASK = "workflow: [{step: only, tool: {kind: compute, seen: '{{ ctx }}'}}]"
LOOP = """
workflow:
- step: only
  loop: {in: [1, 2], iterator: one, spec: {mode: %s}}
  tool: {kind: compute}
"""
OK: JsonObject = {"status": "ok"}


class Run:
    """An execution with one run that goes on, and its workers."""

    def __init__(self, text: str = TASK, ctx: "JsonObject | None" = None) -> None:
        self.process: PlaybookProcess = compile_source(PlaybookSource(text=HEADER + text), 1)
        new = NewInstance(id="01JABC3V9E6K8M2Q4S6T8W0Y2Z", variables={"ctx": ctx or {}})
        self._at = 1
        started = start_execution(self.process, new, self._next_moment())
        self.execution: Execution = started.instance
        enqueued = next(effect for effect in started.effects if isinstance(effect, EnqueueTask))
        self.job, self.place = str(enqueued.task), JobPlace("", enqueued.node, enqueued.element, enqueued.execution)
        self.logged: list[str] = []

    def _next_moment(self) -> Moment:
        self._at += 1
        return Moment(at=self._at, first_id=self._at << 80)

    @property
    def ctx(self) -> JsonValue:
        return self.execution.marking.data[CTX]

    def report(
        self, *patches: tuple[str, JsonValue], first: int = 0, lease: int = 1, log: int = 0, log_from: int = 0
    ) -> "JsonObject | str":
        """What was taken, or why nothing is."""
        entries: list[JsonValue] = [{"event": "task.started", "task": f"t{log_from + n}"} for n in range(log)]
        report: JsonObject = {"patches": _to_documents(patches), "from": first, "log": entries, "logFrom": log_from}
        outcome = report_progress(self.process, self.execution, self.job, report, lease, self._next_moment())
        if isinstance(outcome, Rejection):
            return f"{outcome.kind}: {outcome.reason}"
        self._take(outcome)
        return PlaybookReports().describe_taken(self.execution, self.job)

    def complete(self, *patches: tuple[str, JsonValue], log: int = 0, logged: int = 0) -> None:
        entries: list[JsonValue] = [{"event": "task.started", "task": f"t{n}"} for n in range(log)]
        completion: JsonObject = {**OK, "patches": _to_documents(patches), "log": entries, "logged": logged}
        outcome = complete_job(self.process, self.execution, self.job, completion, self._next_moment())
        assert not isinstance(outcome, Rejection)
        self._take(outcome)

    def fail(self) -> None:
        self._take(fail_job(self.process, self.execution, self.job, "gone", self._next_moment()))

    def patch(self, **ctx: JsonValue) -> None:
        """From outside."""
        outcome = patch_context(self.process, self.execution, ctx, self._next_moment())
        assert not isinstance(outcome, Rejection)
        self._take(outcome)

    def see(self) -> JsonValue:
        """``ctx`` as the worker sees it that claims the job now."""
        return build_payload(self.process, self.execution, self.place, {})["ctx"]

    def _take(self, applied: Applied) -> None:
        log = PLAYBOOKS.log
        assert log is not None
        if applied.effects:
            events = log.list_events(self.process, self.execution, applied)
            for event in decode(encode(list(events))):  # type: ignore[union-attr]
                match event:
                    case {"event_type": "ctx.patched" | "ctx.patch.held", "payload": {"changes": changes}}:
                        self.logged.append(f"{next(iter(changes))}={next(iter(changes.values()))}")  # type: ignore[union-attr,call-overload,arg-type]
                    case {"event_type": "task.started", "entity_id": task}:
                        self.logged.append(str(task))
        stored = decode(encode(execution_to_document(applied.instance)))
        assert isinstance(stored, dict)
        self.execution = execution_from_document(stored)
        assert self.execution == applied.instance, "it is stored and read unchanged"


def _to_documents(patches: tuple[tuple[str, JsonValue], ...]) -> list[JsonValue]:
    return [{"path": list(key.split(".")), "value": value, "at": n + 1} for n, (key, value) in enumerate(patches)]


def test_patches_take_effect_at_once_and_once_in_the_order_of_the_log():
    run = Run()
    assert run.report(("a", 1), log=1) == {"patches": 1, "log": 1}
    assert run.ctx == {"a": 1}
    assert run.report(("a", 1), log=1) == {"patches": 1, "log": 1}, "its answer was lost"
    assert run.report(("a", 1), ("b", 2), log=2) == {"patches": 2, "log": 2}, "so all is reported again"
    run.complete(("a", 1), ("b", 2), ("c", 3), log=4, logged=2)
    assert run.ctx == {"a": 1, "b": 2, "c": 3}
    assert run.logged == ["t0", "a=1", "t1", "b=2", "t2", "c=3", "t3"]
    assert (run.execution.outcome, run.execution.progress) == ("success", {})


def test_a_change_from_elsewhere_is_not_undone_by_what_comes_again():
    run = Run()
    run.report(("a", 1))
    run.patch(a=5)
    run.report(("a", 1), lease=2)
    run.complete(("a", 1))
    assert (run.ctx, run.logged) == ({"a": 5}, ["a=1", "a=5"])


def test_a_run_that_begins_again_counts_nothing_twice():
    run = Run(ctx={"n": 1, "deep": {"m": 1}, "flat": 3})
    run.report(("n", 2), ("n", 3), ("deep.m", 2), ("deep.new", 1), ("fresh.x", 1), ("fresh.y", 2), ("flat.z", 1), log=2)
    assert run.ctx == {"n": 3, "deep": {"m": 2, "new": 1}, "flat": {"z": 1}, "fresh": {"x": 1, "y": 2}}
    assert run.see() == {"n": 1, "deep": {"m": 1}, "flat": 3}, "as the first worker saw it"
    assert run.report(("n", 2), lease=2, log=1) == {"patches": 7, "log": 1}, "the same again; its log is its own"
    run.complete(("n", 2), ("n", 3), log=1, logged=1)
    assert run.ctx == {"n": 3, "deep": {"m": 2, "new": 1}, "flat": {"z": 1}, "fresh": {"x": 1, "y": 2}}
    assert run.logged.count("n=2") == run.logged.count("n=3") == 1


def test_what_others_have_changed_meanwhile_a_second_run_sees():
    run = Run(ctx={"n": 1})
    run.report(("n", 2), ("m", 1))
    run.patch(n=7)
    assert run.see() == {"n": 7}


def test_a_run_that_goes_another_way_counts_from_there_on():
    run = Run()
    run.report(("a", 1), ("b", 1), ("c", 1))
    assert run.report(("a", 1), ("b", 2), lease=2) == {"patches": 2, "log": 0}
    run.complete(("a", 1), ("b", 2), ("d", 1))
    assert run.ctx == {"a": 1, "b": 2, "c": 1, "d": 1}
    assert run.logged == ["a=1", "b=1", "c=1", "b=2", "d=1"]


def test_the_worker_that_lost_its_lease_is_told():
    run = Run()
    run.report(("a", 1), lease=2, log=1)
    assert run.report(("a", 9), lease=1) == "conflict: another worker has the run"
    run.fail()
    assert run.report(("a", 1), lease=2) == "conflict: the run is over"
    assert run.ctx == {"a": 1}, "what it wrote before it failed stays"


def test_a_gap_is_not_taken():
    run = Run()
    run.report(("a", 1), log=1)
    assert run.report(("c", 3), first=2, log=1, log_from=1) == {"patches": 1, "log": 1}
    assert run.report(("b", 2), first=1, log=1, log_from=2) == {"patches": 1, "log": 1}
    assert run.ctx == {"a": 1}


def test_elements_that_run_beside_others_change_nothing_before_their_end():
    beside = Run(LOOP % "parallel")
    assert beside.report(("a", 1), log=1) == {"patches": 0, "log": 0}
    beside.complete(("a", 1), log=1)
    assert (beside.ctx, beside.logged) == ({"a": 1}, ["t0", "a=1", "a=1"]), "held, then made"
    alone = Run(LOOP % "sequential")
    assert alone.report(("a", 1)) == {"patches": 1, "log": 0}
    assert alone.ctx == {"a": 1}


def test_a_run_changes_only_so_much_before_its_end():
    many = Run()
    for number in range(MAX_PATCHES):
        assert many.report(("n", number), first=number) == {"patches": number + 1, "log": 0}
    assert many.report(("n", 0), first=MAX_PATCHES) == {"patches": MAX_PATCHES, "log": 0}
    at_once = Run()
    assert at_once.report(*[("n", number) for number in range(10_000)], log=1) == {"patches": 0, "log": 0}
    large = Run()
    assert large.report(("n", "x" * MAX_CHARS), log=1) == {"patches": 0, "log": 0}
    assert large.ctx == {}


def test_what_is_no_report_is_refused_and_says_which_member():
    run = Run()
    cases: list[tuple[JsonValue, str]] = [
        ([], "progress"),
        ({"from": -1}, "from"),
        ({"from": "1"}, "from"),
        ({"logFrom": 10**9}, "logFrom"),
        ({"patches": {}}, "patches"),
        ({"patches": [{"path": []}]}, "patches"),
        ({"log": [{"event": "step.done"}]}, "log"),
    ]
    for given, word in cases:
        outcome = report_progress(run.process, run.execution, run.job, given, 1, Moment(at=1, first_id=1))
        assert isinstance(outcome, Rejection)
        assert (outcome.kind, word in outcome.reason) == ("bad-request", True)


def test_a_patch_that_is_too_much_fails_the_run():
    limits = "executor: {spec: {policy: {limits: {max_ctx_bytes: 50}}}}\n"
    run = Run(limits + TASK)
    run.report(("a", "x" * 100))
    assert run.execution.outcome == "failed"
    assert run.report(("b", 1), first=1) == "conflict: the run is over"
