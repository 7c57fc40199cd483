"""Steps that ask people (docs/reference/playbooks.md#user-tasks)."""

from statewright.net.effects import CloseHumanTask, EnqueueTask, OpenHumanTask
from statewright.net.local import LocalClock
from statewright.playbooks.operations import (
    cancel_execution,
    complete_job,
    complete_task,
    fail_job,
    report_progress,
    start_execution,
)
from statewright.playbooks.source import PlaybookSource, compile_source
from statewright.processes.language import Applied, NewInstance, Rejection

HEADER = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: case}\nworkflow:\n"
ASK = HEADER + '- step: only\n  tool: {kind: ask, title: "Approve {{ args.n }}", assignee: ada}\n'
NEW = NewInstance(id="01JABC3V9E6K8M2Q4S6T8W0Y2Z", variables={"args": {"n": 7}})


def test_a_step_opens_a_user_task_and_its_answer_is_the_result():
    process, clock = compile_source(PlaybookSource(text=ASK, asks_people=True), 1), LocalClock()
    started = start_execution(process, NEW, clock.next_moment())
    [task] = [effect for effect in started.effects if isinstance(effect, OpenHumanTask)]
    assert task.about == {"title": "Approve 7", "assignee": "ada"}
    assert [effect for effect in started.effects if isinstance(effect, EnqueueTask)] == []
    execution = started.instance
    assert complete_job(process, execution, task.task, {"status": "ok"}, clock.next_moment()).effects == ()
    assert fail_job(process, execution, task.task, "no", clock.next_moment()).effects == ()
    assert isinstance(report_progress(process, execution, task.task, {}, 1, clock.next_moment()), Rejection)
    done = complete_task(process, execution, task=task.task, result=[1], by="ada", moment=clock.next_moment())
    assert isinstance(done, Applied)
    [closing] = [effect for effect in done.effects if isinstance(effect, CloseHumanTask)]
    assert (closing.status, closing.result, closing.by) == ("COMPLETED", [1], "ada")
    assert done.instance.status == "COMPLETED"
    late = complete_task(process, done.instance, task=task.task, result=[1], by="", moment=clock.next_moment())
    assert isinstance(late, Rejection)
    stopped = cancel_execution(process, execution, "", clock.next_moment())
    assert isinstance(stopped, Applied)
    [closing] = [effect for effect in stopped.effects if isinstance(effect, CloseHumanTask)]
    assert closing.status == "CANCELLED"


def test_a_question_that_cannot_be_filled_in_fails_the_step():
    text = ASK.replace("{{ args.n }}", "{{ 1 / 0 }}")
    process = compile_source(PlaybookSource(text=text, asks_people=True), 1)
    started = start_execution(process, NEW, LocalClock().next_moment())
    assert (started.instance.status, started.instance.outcome) == ("FAILED", "failed")
    assert [effect for effect in started.effects if isinstance(effect, OpenHumanTask)] == []


def test_a_playbook_that_was_stored_before_has_its_worker_do_it():
    started = start_execution(compile_source(PlaybookSource(text=ASK), 1), NEW, LocalClock().next_moment())
    assert [effect.kind for effect in started.effects if isinstance(effect, EnqueueTask)] == ["playbook:ask"]
