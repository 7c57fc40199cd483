"""History and audit (docs/reference/steps.md#recording, decision J7)."""

from statewright.jsonval.codec import encode
from statewright.processes.language import Applied, NewInstance
from statewright.steps import list_audit_entries, render_history_item, start_instance
from tests.unit.steps.builders import a_process, decision, end, service, timer, user, wait
from tests.unit.steps.world import World


def kinds(world: World) -> list[str]:
    assert isinstance(world.last, Applied)
    return [entry.kind for entry in list_audit_entries(world.process, world.instance, world.last)]


def test_an_item_has_every_member_in_both_spellings():
    steps = (service("work", "end", name="Do the work"), end())
    world = World(a_process(*steps, id="flow", name="A flow")).start(n=1)
    line = world.line("work")
    assert render_history_item(line, world.process) == {
        "id": line.id,
        "instanceId": "01HZ",
        "stepId": "work",
        "stepName": "Do the work",
        "stepType": "SERVICE_TASK",
        "attemptNumber": 1,
        "status": "RUNNING",
        "startedAt": "2024-06-01T09:00:00.001Z",
        "endedAt": None,
        "inputSnapshot": {"n": 1},
        "outputSnapshot": None,
        "failureReason": None,
        "definitionId": "flow",
        "definitionName": "A flow",
        "ID": line.id,
        "InstanceID": "01HZ",
        "StepID": "work",
        "StepName": "Do the work",
        "StepType": "SERVICE_TASK",
        "AttemptNumber": 1,
        "Status": "RUNNING",
        "StartedAt": "2024-06-01T09:00:00.001Z",
        "EndedAt": None,
        "InputSnapshot": {"n": 1},
        "OutputSnapshot": None,
        "FailureReason": None,
        "DefinitionID": "flow",
        "DefinitionName": "A flow",
    }
    assert encode(render_history_item(line, world.process))


def test_lines_of_one_step_share_its_instant_and_sort_by_id():
    world = World(a_process(decision("a", {"true": "b"}), decision("b", {"true": "end"}), end())).start()
    lines = list(world.lines.values())
    assert {(line.started_at, line.ended_at) for line in lines} == {(world.clock, world.clock)}
    assert [line.node_id for line in sorted(lines, key=lambda line: line.id)] == ["a", "b", "end"]


def test_a_line_written_earlier_is_ended_later():
    world = World(a_process(service("work", "end"), end())).start()
    begun = world.clock
    world.complete("work", n=1)
    line = world.line("work")
    assert (line.status, line.started_at, line.ended_at, line.output_snapshot) == (
        "COMPLETED",
        begun,
        world.clock,
        {"n": 1},
    )


def test_loops_and_manual_retries_add_attempts_and_job_retries_do_not():
    loop = service("work", conditionalNextSteps={"again": "work", "true": "end"}, retryCount=1)
    world = World(a_process(loop, end())).start()
    world.fail("work", retryable=True).complete("work", again=True).fail("work").retry("work").complete(
        "work", again=False
    )
    assert world.history == ["work#1 COMPLETED", "work#2 FAILED", "work#3 COMPLETED", "end#1 COMPLETED"]


def test_starting_is_told_with_the_steps_entered():
    process = a_process(service("work", "end", name="Do the work"), end(), id="flow", name="A flow")
    world = World(process).start()
    applied = start_instance(process, NewInstance(id="x", business_key="K"), world.first[1])
    entries = list_audit_entries(process, None, applied)
    assert [entry.kind for entry in entries] == ["instance-started", "step-entered"]
    assert [entry.detail for entry in entries] == [
        {"definitionId": "flow", "definitionName": "A flow", "businessKey": "K"},
        {"stepId": "work", "stepName": "Do the work", "attemptNumber": 1},
    ]


def test_every_operation_is_told_by_its_kinds():
    world = World(
        a_process(
            user("ask", "park", boundaryEvents=[timer("PT1H", "late")]),
            wait("park", "work"),
            service("late"),
            service("work", "end"),
            end(),
        )
    ).start()
    assert kinds(world.fire()) == ["timer-fired", "step-entered"]
    assert kinds(world.finish_task("ask")) == ["user-task-completed", "step-completed", "step-entered"]
    assert kinds(world.signal("park")) == ["signal-received", "step-completed", "step-entered"]
    assert kinds(world.fail("work")) == ["step-failed", "instance-failed"]
    assert kinds(world.retry("work")) == ["step-retried", "step-entered"]
    assert kinds(world.complete("work")) == ["step-completed", "step-entered", "step-completed", "instance-completed"]


def test_cancelling_is_told_with_its_reason():
    world = World(a_process(service("work", "end"), end())).start().cancel("enough")
    assert isinstance(world.last, Applied)
    (entry,) = list_audit_entries(world.process, world.instance, world.last)
    assert (entry.kind, entry.detail) == ("instance-cancelled", {"failureReason": "enough"})


def test_who_completed_a_task_is_told():
    world = World(a_process(user("ask", "end"), end())).start().finish_task("ask", by="ann")
    assert isinstance(world.last, Applied)
    told = next(entry for entry in list_audit_entries(world.process, world.instance, world.last))
    assert told.detail["completedBy"] == "ann"
