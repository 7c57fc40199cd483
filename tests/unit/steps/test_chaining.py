"""Chaining and business keys (docs/reference/steps.md#chaining)."""

from statewright.net.effects import StartChild
from statewright.steps import render_instance
from tests.unit.steps.builders import a_process, decision, end, service
from tests.unit.steps.world import World

CHAINED = {"autoStartNextWorkflow": True, "nextWorkflowId": "next::flow"}


def test_reaching_an_end_starts_the_next_workflow_with_the_final_variables():
    world = World(a_process(service("work", "end"), end(), **CHAINED)).start(a=1).complete("work", b=2)
    assert world.children == [StartChild(net="next::flow", input={"a": 1, "b": 2}, awaited_by=None)]


def test_a_failed_instance_does_not_chain():
    assert World(a_process(decision("route", {"false": "end"}), end(), **CHAINED)).start().children == []


def test_only_the_first_end_of_the_document_chains():
    """The loan chain goes on when a loan is approved, not when it is rejected."""
    for chosen, started in (("approved", 1), ("rejected", 0)):
        steps = (
            decision("route", {f"x == '{end_}'": end_ for end_ in ("rejected", "approved")}),
            end("approved"),
            end("rejected"),
        )
        assert len(World(a_process(*steps, **CHAINED)).start(x=chosen).children) == started


def test_without_auto_start_the_next_workflow_is_only_a_note():
    assert World(a_process(end(), nextWorkflowId="next::flow")).start().children == []


def test_an_instance_chains_once_however_often_it_is_told_that_it_is_done():
    world = World(a_process(service("work", "end"), end(), **CHAINED)).start()
    job = world.job("work").task
    world.report(job, {}).report(job, {})
    assert len(world.children) == 1


def test_an_empty_business_key_is_none():
    assert World(a_process(end())).start().instance.business_key is None
    assert render_instance(World(a_process(end())).start("K-1").instance)["businessKey"] == "K-1"
