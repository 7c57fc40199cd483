"""Effects as what changes in tables."""

from statewright.net.effects import CloseTask, StartChild
from statewright.processes.changes import RowChanges, compute_row_changes
from tests.unit.steps.builders import a_process, decision, end, fork, join, service, timer, user
from tests.unit.steps.world import World


def told(world: World) -> RowChanges:
    return compute_row_changes(world.effects)


def test_a_completed_job_is_closed_and_its_successor_made():
    world = World(
        a_process(service("a", "b", boundaryEvents=[timer("PT1H", "end")]), service("b", "end"), end())
    ).start()
    job, (armed,) = world.job("a").task, world.timers
    found = told(world.complete("a"))
    assert found.closed_jobs == (CloseTask(task=job, status="COMPLETED"),)
    assert [(one.task.kind, one.status) for one in found.new_jobs] == [("b", "UNLOCKED")]
    assert (found.ended_timers, found.armed_timers, found.is_held) == ((armed,), (), None)


def test_what_is_made_and_closed_in_one_step_is_born_closed():
    steps = (
        service("first", "fork"),
        fork("fork", "join", "a", "b", "c"),
        service("a", "join", boundaryEvents=[timer("PT1H", "end")]),
        user("b", "join"),
        decision("c", {"true": "end"}),
        join("join", "end"),
        end(),
    )
    found = told(World(a_process(*steps)).start().complete("first"))
    assert [one.status for one in found.new_jobs] == ["CANCELLED"]
    assert [one.status for one in found.new_tasks] == ["CANCELLED"]
    assert (found.armed_timers, found.ended_timers) == ((), ())


def test_work_that_was_made_before_a_failure_in_the_same_step_is_held():
    steps = (
        service("first", "fork"),
        fork("fork", "join", "a", "b"),
        service("a", "join"),
        decision("b", {"ok": "join"}),
        join("join", "end"),
        end(),
    )
    world = World(a_process(*steps)).start(ok=False).complete("first", ok=None)
    assert [one.status for one in told(world).new_jobs] == ["UNLOCKED"]
    assert told(world).is_held is True
    assert told(world.retry("b")).is_held is True
    assert told(world.retry("b", ok=True)).is_held is False


def test_a_child_to_be_started_is_told():
    process = a_process(user("ask", "end"), end(), autoStartNextWorkflow=True, nextWorkflowId="next")
    world = World(process).start()
    (task,) = world.tasks
    found = told(world.finish_task("ask", n=1))
    assert found.children == (StartChild(net="next", input={"n": 1}),)
    assert [closing.task for closing in found.closed_tasks] == [task]
