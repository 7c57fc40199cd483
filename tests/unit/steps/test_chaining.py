"""Chaining and business keys (docs/reference/steps.md#chaining)."""

import pytest

from statewright.jsonval.values import JsonObject, JsonValue
from statewright.net import Moment
from statewright.net.effects import StartChild
from statewright.processes.language import NewInstance
from statewright.steps import Process, list_audit_entries, render_instance, start_instance
from tests.unit.steps.builders import a_process, decision, end, service
from tests.unit.steps.world import START, World

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


@pytest.mark.parametrize(
    ("named", "chaining"),
    [
        (["rejected"], {"rejected"}),
        (["rejected", "approved"], {"rejected", "approved"}),
        ("*", {"rejected", "approved", "escalated"}),
        ([], set()),
        (["gone", "approved"], {"approved"}),
        ("approved", {"approved"}),  # of no known shape: the first END, as without it
        ({"rejected": True}, {"approved"}),
        (["rejected", 1], {"approved"}),
        (None, {"approved"}),
    ],
)
def test_metadata_name_the_ends_that_chain(named: JsonValue, chaining: set[str]):
    outcomes = ("approved", "rejected", "escalated")
    route = decision("route", {f"x == '{outcome}'": outcome for outcome in outcomes})
    process = a_process(route, *map(end, outcomes), metadata={"chainAtEnds": named}, **CHAINED)
    found = {outcome for outcome in outcomes if World(process).start(x=outcome).children}
    assert found == chaining


def test_the_audit_says_which_ends_chain_and_which_one_did():
    route = decision("route", {"x == 1": "a", "true": "b"})
    process = a_process(route, end("a"), end("b", name="Refused"), metadata={"chainAtEnds": ["a"]}, **CHAINED)
    for x, end_, chained in ((1, {"endStepId": "a", "endStepName": "A"}, True), (2, {"endStepId": "b"}, False)):
        entries = audit_of_start(process, x=x)
        assert entries["instance-started"].items() >= {"nextDefinitionId": "next::flow", "chainsAtEnds": "a"}.items()
        expected = {"nextDefinitionId": "next::flow", "chained": chained}.items()
        assert entries["instance-completed"].items() >= {**end_, **dict(expected)}.items()
    assert entries["instance-completed"]["endStepName"] == "Refused"


def test_without_a_successor_the_audit_says_nothing_of_chains():
    details = audit_of_start(a_process(end())).values()
    assert not any("chained" in detail or "chainsAtEnds" in detail for detail in details)


def audit_of_start(process: Process, **variables: JsonValue) -> dict[str, JsonObject]:
    """What the audit says of each kind."""
    applied = start_instance(process, NewInstance(id="x", variables=variables), Moment(at=START, first_id=1))
    return {entry.kind: entry.detail for entry in list_audit_entries(process, None, applied)}


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
