"""What holds for any definition and any order of events (docs/reference/steps.md#invariants,
docs/reference/kernel.md#guarantees).

:class:`tests.unit.steps.world.World` checks after every operation that state, work, timers and history agree.
"""

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.strategies import DataObject

from statewright.jsonval.codec import encode
from statewright.jsonval.values import JsonObject
from statewright.steps import compile_definition, instance_to_document
from statewright.steps.documents import definition_from_document
from tests.unit.steps.strategies import documents, well_formed
from tests.unit.steps.world import World, replayed, with_budget

DELTAS = st.fixed_dictionaries({}, optional={"n": st.integers(0, 5), "flag": st.booleans(), "o": st.just({"a": 1})})
EVENTS = ["complete", "fail", "fail for good", "person", "signal", "timer", "retry", "again", "cancel"]


def a_world(document: JsonObject) -> World:
    return World(with_budget(compile_definition(definition_from_document(document), 1), 60)).start(n=1, flag=True)


def play(data: DataObject, world: World) -> None:
    """One event, which may or may not apply."""
    step = data.draw(st.sampled_from(sorted(world.process.steps)), label="step")
    delta = data.draw(DELTAS, label="delta")
    match data.draw(st.sampled_from(EVENTS), label="event"):
        case "complete" if world.jobs:
            world.report(data.draw(st.sampled_from(sorted(world.jobs))), delta)
        case "fail" if world.jobs:
            world.report_failure(data.draw(st.sampled_from(sorted(world.jobs))), retryable=True)
        case "fail for good" if world.jobs:
            world.report_failure(data.draw(st.sampled_from(sorted(world.jobs))))
        case "person":
            world.finish_task(step, **delta)
        case "signal":
            world.signal(step, **delta)
        case "timer" if world.timers:
            world.fire(data.draw(st.sampled_from(sorted(world.timers))))
        case "retry":
            world.retry(step, **delta)
        case "again" if world.closed_jobs:
            job = data.draw(st.sampled_from(sorted(world.closed_jobs)))
            assert world.report(job, {"late": 1}).effects == ()
        case "cancel" if data.draw(st.integers(0, 9)) == 0:
            world.cancel("enough")
        case _:
            pass


@settings(max_examples=200)
@given(documents(), st.data())
def test_state_work_timers_and_history_agree_after_any_events(document: JsonObject, data: DataObject):
    world = a_world(document)
    for _ in range(data.draw(st.integers(0, 12), label="events")):
        play(data, world)


@settings(max_examples=80)
@given(documents(), st.data())
def test_terminal_states_absorb_every_event(document: JsonObject, data: DataObject):
    world = a_world(document)
    for _ in range(6):
        play(data, world)
    if world.status not in ("COMPLETED", "FAILED"):
        world.cancel()
    final = world.instance
    if final.status == "FAILED":
        return
    for job in world.closed_jobs:
        world.report(job, {"n": 9}).report_failure(job, retryable=True)
    for timer in world.closed_timers:
        world.fire(timer)
    for step in world.process.steps:
        world.finish_task(step).signal(step).retry(step)
    assert world.cancel("again").instance == final


@settings(max_examples=80)
@given(documents(), st.data())
def test_replaying_the_same_events_gives_the_same_state_byte_for_byte(document: JsonObject, data: DataObject):
    world = a_world(document)
    for _ in range(8):
        play(data, world)
    assert encode(instance_to_document(replayed(world))) == encode(instance_to_document(world.instance))


@settings(max_examples=80)
@given(documents(), st.data())
def test_attempts_of_a_step_count_up_and_history_names_only_steps_of_the_definition(
    document: JsonObject, data: DataObject
):
    world = a_world(document)
    for _ in range(8):
        play(data, world)
    seen: Counter[str] = Counter()
    for line in world.lines.values():
        seen[line.node_id] += 1
        assert line.attempt_number == seen[line.node_id]
        assert line.node_id in world.process.steps
        assert line.status in ("RUNNING", "COMPLETED", "FAILED", "SKIPPED")
        assert (line.ended_at is None) == (line.status == "RUNNING")
    assert dict(seen) == dict(world.instance.marking.attempts)


@settings(max_examples=80)
@given(documents(), st.data())
def test_every_job_task_and_timer_is_closed_exactly_once_in_the_end(document: JsonObject, data: DataObject):
    world = a_world(document)
    for _ in range(8):
        play(data, world)
    made = len(world.jobs) + len(world.closed_jobs)
    if world.status == "FAILED":
        return
    world.cancel()
    assert len(world.closed_jobs) == made
    assert not world.jobs
    assert not world.timers
    assert not world.tasks


def finish_everything(data: DataObject, world: World, *, failing: bool = False) -> None:
    """Let every waiting piece of work be done, in any order, until nothing is left."""
    for _ in range(500):
        if world.instance.is_terminal:
            return
        kind, name = data.draw(st.sampled_from(_open_work(world)))
        if kind == "job" and failing and _is_first_attempt(world, name) and data.draw(st.booleans()):
            step = world.jobs[name].node
            world.report_failure(name)
            _report_while_failed(data, world)
            world.retry(step)
        elif kind == "job":
            world.report(name, {f"done {world.jobs[name].node}": True})
        elif kind == "task":
            world.finish_task(name, **{f"done {name}": True})
        else:
            world.signal(name, **{f"done {name}": True})


def _open_work(world: World) -> list[tuple[str, str]]:
    parked = [line.node_id for line in world.lines.values() if (line.node_type, line.status) == ("WAIT", "RUNNING")]
    return [
        *(("job", job) for job in sorted(world.jobs)),
        *(("task", task.node) for task in world.tasks.values()),
        *(("signal", step) for step in parked),
    ]


def _is_first_attempt(world: World, job: str) -> bool:
    return world.lines[world.jobs[job].execution].attempt_number == 1


def _report_while_failed(data: DataObject, world: World) -> None:
    for job in sorted(world.jobs):
        if data.draw(st.booleans()):
            world.report(job, {f"done {world.jobs[job].node}": True})


@settings(max_examples=80)
@given(well_formed(), st.data())
def test_in_a_well_formed_definition_every_order_of_work_completes_and_joins_release_once(
    made: tuple[JsonObject, dict[str, int]], data: DataObject
):
    document, joins = made
    world = a_world(document)
    finish_everything(data, world)
    assert world.status == "COMPLETED"
    visits = Counter(line.node_id for line in world.lines.values())
    for join_step, branches in joins.items():
        assert visits[join_step] in (0, branches)
        after = str(world.process.steps[join_step].next_step)
        if not after.startswith(("join", "end")):
            assert visits[after] <= 1 or after in joins


@settings(max_examples=80)
@given(well_formed(), st.data())
def test_failures_retries_and_results_reported_in_between_lose_no_token(
    made: tuple[JsonObject, dict[str, int]], data: DataObject
):
    document, joins = made
    world = a_world(document)
    finish_everything(data, world, failing=True)
    assert world.status == "COMPLETED"
    completed = Counter(line.node_id for line in world.lines.values() if line.status == "COMPLETED")
    assert all(completed[join_step] in (0, branches) for join_step, branches in joins.items())
    assert all(count == 1 for step, count in completed.items() if step not in joins)


@settings(max_examples=80)
@given(well_formed(), st.data())
def test_the_order_of_completions_does_not_change_the_outcome(
    made: tuple[JsonObject, dict[str, int]], data: DataObject
):
    document, _ = made
    first, second = a_world(document), a_world(document)
    finish_everything(data, first)
    finish_everything(data, second)
    assert first.variables == second.variables
    assert Counter(first.history) == Counter(second.history)
