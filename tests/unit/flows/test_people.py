"""Tasks that people do (docs/reference/flows.md#built-in-tasks)."""

import pytest

from statewright.flows.definition import FlowSettings, FlowSource, TaskPolicy, compile_source
from statewright.flows.instance import FlowInstance
from statewright.flows.lexer import STORED, InvalidFlow
from statewright.flows.operations import cancel_instance, complete_job, complete_task, fire_timer, start_instance
from statewright.jsonval.values import JsonValue
from statewright.net.effects import ArmTimer, CloseHumanTask, EnqueueTask, OpenHumanTask
from statewright.net.local import LocalClock
from statewright.processes.language import Applied, NewInstance, Rejection

ID = "01JABC3V9E6K8M2Q4S6T8W0Y2Z"


def start(text: str, given: JsonValue, **policies: TaskPolicy) -> tuple[object, Applied[FlowInstance], LocalClock]:
    process = compile_source(FlowSource(id="f", text=text, settings=FlowSettings(tasks=policies)), 1)
    clock = LocalClock()
    return process, start_instance(process, NewInstance(id=ID, variables={"input": given}), clock.next_moment()), clock


def opened(applied: Applied[FlowInstance]) -> list[OpenHumanTask]:
    return [effect for effect in applied.effects if isinstance(effect, OpenHumanTask)]


def closed(applied: Applied[FlowInstance] | Rejection) -> list[CloseHumanTask]:
    assert isinstance(applied, Applied)
    return [effect for effect in applied.effects if isinstance(effect, CloseHumanTask)]


def test_an_answer_is_the_output_of_its_task():
    process, started, clock = start(
        'ask({"title": "Approve {input[id]}", "groups": ["{input[team]}"]})', {"id": 7, "team": "ops"}
    )
    [task] = opened(started)
    assert task.about == {"title": "Approve 7", "groups": ["ops"]}
    assert complete_job(process, started.instance, task.task, {}, clock.next_moment()).effects == ()
    done = complete_task(
        process, started.instance, task=task.task, result={"ok": True}, by="ada", moment=clock.next_moment()
    )
    [closing] = closed(done)
    assert (closing.status, closing.result, closing.by) == ("COMPLETED", {"ok": True}, "ada")
    assert done.instance.status == "COMPLETED"
    assert done.instance.marking.result == {"ok": True}
    late = complete_task(process, done.instance, task=task.task, result={}, by="", moment=clock.next_moment())
    assert isinstance(late, Rejection)


def test_each_element_has_a_task_of_its_own():
    process, started, clock = start('* ask({"title": "Sign"})', ["a", "b"])
    instance = started.instance
    assert [task.input for task in opened(started)] == ["a", "b"]
    for task in opened(started):
        instance = complete_task(
            process, instance, task=task.task, result=[task.input], by="", moment=clock.next_moment()
        ).instance
    assert instance.marking.result == [["a"], ["b"]]


def test_cancelling_and_a_limit_of_time_withdraw_it():
    process, started, clock = start('ask({"title": "Sign"})', {}, ask=TaskPolicy(time_limit="PT1H"))
    [task] = opened(started)
    assert [one.status for one in closed(cancel_instance(process, started.instance, "", clock.next_moment()))] == [
        "CANCELLED"
    ]
    [limit] = [effect.timer for effect in started.effects if isinstance(effect, ArmTimer)]
    late = fire_timer(process, started.instance, limit, clock.next_moment())
    assert [one.task for one in closed(late)] == [task.task]
    assert (late.instance.status, late.instance.failed_nodes[0].reason) == ("FAILED", "TIMEOUT")


@pytest.mark.parametrize(
    ("parameters", "told"),
    [
        ("{}", "1:1 parameters of ask: title is missing"),
        ('{"title": "a", "asignee": "b"}', "asignee is not known; did you mean assignee?"),
        ('{"title": 5}', "title: expected `str`, got `int`"),
        ('{"title": "a", "groups": [1]}', "groups[0]: expected `str`, got `int`"),
    ],
)
def test_parameters_that_are_wrong_are_told_with_their_place(parameters: str, told: str):
    with pytest.raises(InvalidFlow) as refused:
        compile_source(FlowSource(id="f", text=f"ask({parameters})"), 1)
    assert told in str(refused.value)


def test_a_definition_that_was_stored_before_has_its_worker_do_it():
    process = compile_source(FlowSource(id="f", text='ask({"title": "a"})'), 1, STORED)
    begun = start_instance(process, NewInstance(id=ID, variables={}), LocalClock().next_moment())
    assert [effect.kind for effect in begun.effects if isinstance(effect, EnqueueTask)] == ["ask"]
    new = compile_source(FlowSource(id="f", text='ask({"title": "a"})', asks_people=True), 1, STORED)
    begun = start_instance(new, NewInstance(id=ID, variables={}), LocalClock().next_moment())
    assert len(opened(begun)) == 1


def test_an_alias_leaves_it_to_a_worker():
    process = compile_source(FlowSource(id="f", text="@task ask = my-ask\nask"), 1)
    begun = start_instance(process, NewInstance(id=ID, variables={}), LocalClock().next_moment())
    assert [effect.kind for effect in begun.effects if isinstance(effect, EnqueueTask)] == ["my-ask"]
