"""USER_TASK and WAIT (docs/reference/steps.md#user_task, docs/reference/steps.md#wait-end-and-branches-of-tasks,
docs/reference/steps.md#user-tasks-and-signals).
"""

from statewright.net.effects import CloseHumanTask
from tests.unit.steps.builders import a_process, end, fork, join, service, user, wait
from tests.unit.steps.world import World


def test_an_instance_waits_while_a_person_is_asked():
    world = World(a_process(user("approve", "end", jobType="form-7"), end())).start(n=1)
    assert (world.status, world.at, world.inbox) == ("WAITING", ["approve"], ["approve"])
    (task,) = world.tasks.values()
    assert (task.kind, task.input) == ("form-7", {"n": 1})


def test_a_persons_result_is_merged_deep_and_kept_with_the_task():
    world = World(a_process(user("approve", "end"), end())).start(order={"id": 1})
    world.finish_task("approve", by="ann", order={"ok": True})
    assert world.variables == {"order": {"id": 1, "ok": True}}
    assert world.line("approve").output_snapshot == {"order": {"id": 1, "ok": True}}
    (closed,) = [effect for effect in world.effects if isinstance(effect, CloseHumanTask)]
    assert (closed.status, closed.result, closed.by) == ("COMPLETED", {"order": {"ok": True}}, "ann")


def test_a_user_task_without_a_next_step_leaves_no_trace_among_the_current_steps():
    world = World(a_process(user("approve"), end())).start()
    world.finish_task("approve")
    assert (world.status, world.at) == ("ACTIVE", [])


def test_an_instance_waits_as_long_as_one_of_its_branches_does():
    world = World(
        a_process(fork("fork", "join", "a", "b"), user("a", "join"), service("b", "join"), join("join", "end"), end())
    ).start()
    assert world.status == "WAITING"
    world.finish_task("a")
    assert (world.status, world.at) == ("ACTIVE", ["b", "join"])
    assert world.complete("b").status == "COMPLETED"


def test_a_signal_is_merged_shallow():
    world = World(a_process(wait("pay", "end"), end())).start(payment={"due": 10})
    assert world.status == "WAITING"
    world.signal("pay", payment={"paid": 10})
    assert (world.status, world.variables) == ("COMPLETED", {"payment": {"paid": 10}})


def test_a_signal_without_a_body_is_enough():
    assert World(a_process(wait("pay", "end"), end())).start().signal("pay").status == "COMPLETED"


def test_a_task_can_also_be_completed_by_its_own_id():
    world = World(a_process(user("ask", "later"), user("later", "end"), end())).start()
    (task,) = world.tasks
    world.finish_task_by_id(task, by="ann", ok=True)
    assert (world.at, world.variables) == (["later"], {"ok": True})
    assert world.finish_task_by_id(task).refusal == ("not-found", "user task not found")
    world.cancel()
    assert world.finish_task_by_id(task).refusal == ("conflict", "instance is in a terminal state")


def test_user_task_calls_are_refused_in_the_documented_order():
    world = World(a_process(user("approve", "later"), user("later", "end"), wait("pay", "end"), end())).start()
    assert world.finish_task("nowhere").refusal == ("not-found", "user task not found")
    assert world.finish_task("pay").refusal == ("bad-request", "step type does not match the endpoint")
    assert world.finish_task("later").refusal == ("not-found", "user task not found")
    assert world.finish_task("approve").refusal is None
    assert world.finish_task("approve").refusal == ("not-found", "user task not found")
    assert world.finish_task("later").finish_task("later").refusal == ("conflict", "instance is in a terminal state")


def test_signals_are_refused_in_the_documented_order():
    parked = ("conflict", "wait step is not currently parked on the instance")
    world = World(a_process(wait("pay", "later"), wait("later", "end"), user("approve", "end"), end())).start()
    assert world.signal("nowhere").refusal == parked
    assert world.signal("approve").refusal == ("bad-request", "step type does not match the endpoint")
    assert world.signal("later").refusal == parked
    assert world.signal("pay").signal("pay").refusal == parked
    assert world.signal("later").signal("later").refusal == ("conflict", "instance is in a terminal state")


def test_a_signal_that_comes_before_the_step_is_parked_is_lost():
    world = World(a_process(service("work", "pay"), wait("pay", "end"), end())).start()
    world.signal("pay").complete("work")
    assert (world.status, world.at) == ("WAITING", ["pay"])


def test_of_two_tokens_at_one_step_the_older_one_goes_on():
    world = World(
        a_process(fork("fork", "join", "ask", "ask"), user("ask", "join"), join("join", "end"), end())
    ).start()
    assert (len(world.tasks), world.at) == (2, ["ask"])
    world.finish_task("ask", n=1)
    assert world.history[1:] == ["ask#1 COMPLETED", "ask#2 RUNNING", "join#1 COMPLETED"]
    assert world.finish_task("ask", n=2).status == "COMPLETED"
