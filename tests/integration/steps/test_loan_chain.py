"""The seed's two-workflow loan chain, end to end, with all rows of its "Expected terminal states"
(docs/reference/steps.md).
"""

import json
from pathlib import Path

import pytest

from statewright.jsonval.values import JsonObject
from tests.integration.steps.conftest import Host
from tests.unit.steps.test_loan_chain import APPLICANT, ROWS, WORKERS
from tests.unit.steps.test_loan_chain import __file__ as beside

APPLICATION, DISBURSEMENT = "LOS::loan-application-full", "LOS::loan-disbursement-workflow"


@pytest.mark.parametrize(("score", "fraud", "amount", "people", "expected"), ROWS)
async def test_the_chain_ends_where_the_table_says(
    host: Host, score: int, fraud: str, amount: int, people: dict[str, JsonObject], expected: list[str]
):
    for name in ("disbursement", "application"):
        await host.upload(_definition(name))
    replies = {**WORKERS, "credit-score": {"creditScore": score}, "fraud-screen": {"fraudScore": float(fraud)}}
    replies["validate-application"] = {**APPLICANT, "loanAmount": amount}
    await host.start(APPLICATION, "APP-20240417-001", **APPLICANT)

    await _play(host, replies, people)

    instances = sorted(await host.all(business_key="APP-20240417-001"), key=lambda one: one.id)
    assert [one.definition_id for one in instances] == [APPLICATION, DISBURSEMENT][: len(expected)]
    assert {one.status for one in instances} == {"COMPLETED"}
    ends = [line.node_id for one in instances for line in await host.history(one) if line.node_type == "END"]
    assert ends == expected
    if len(instances) == 2:
        assert instances[1].parent_instance_id == instances[0].id
        handed_over = instances[0].variables
        assert {name: instances[1].variables[name] for name in handed_over} == handed_over
    for table in ("process_job", "process_task", "process_timer", "process_child"):
        assert await host.count(f"SELECT count(*) FROM {table}") == 0, table


async def _play(host: Host, replies: dict[str, JsonObject], people: dict[str, JsonObject]) -> None:
    """Let workers do what there is, then people, then time pass; when one has ended its successor starts."""
    while True:
        jobs = await host.claim(*replies)
        for job in jobs:
            await host.complete(job, **replies[job.job_type])
        in_flight = [one for one in await host.all() if not one.is_terminal]
        if jobs or (not in_flight and await host.chain()):
            continue
        if not in_flight:
            return
        [instance] = in_flight
        asked = next((step for step in instance.current_step_ids if step in people), None)
        if asked is not None:
            await host.approve(instance, asked, **people[asked])
        else:
            await host.after(hours=8)


def _definition(name: str) -> JsonObject:
    value = json.loads((Path(beside).parent / "loan_chain" / f"{name}.json").read_text())
    assert isinstance(value, dict)
    return value
