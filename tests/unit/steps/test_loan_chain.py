"""The seed's two-workflow loan chain with all rows of its "Expected terminal states" (docs/reference/steps.md)."""

from decimal import Decimal
from pathlib import Path

import pytest

from statewright.jsonval.values import JsonObject, JsonValue
from statewright.net.effects import StartChild
from statewright.processes.language import NewInstance
from statewright.steps import Accepted, Process, accept_text, compile_definition, read_stubs, simulate, start_instance
from tests.unit.steps.world import START, World

HOUR = 3_600_000_000


def uploaded(name: str) -> Process:
    outcome = accept_text((Path(__file__).parent / "loan_chain" / f"{name}.json").read_bytes())
    assert isinstance(outcome, Accepted)
    return compile_definition(outcome.definition, 1)


CHAIN = {process.definition.id: process for process in map(uploaded, ("application", "disbursement"))}
APPLICATION = CHAIN["LOS::loan-application-full"]
DISBURSEMENT = CHAIN["LOS::loan-disbursement-workflow"]

APPLICANT: JsonObject = {
    "applicantId": "APP-20240417-001",
    "loanAmount": 200_000_000,
    "applicantEmail": "nguyen.van.a@example.com",
}
WORKERS: dict[str, JsonObject] = {
    "validate-application": {**APPLICANT},
    "credit-score": {"creditScore": 720},
    "fraud-screen": {"fraudScore": Decimal("0.12")},
    "approve-loan": {"loanId": "LOAN-20240417-001"},
    "escalate-review": {},
    "prepare-disbursement": {"disbursementId": "DISB-20240417-001"},
    "transfer-funds": {"transferRef": "TXN-20240417-88821"},
    "notify-disbursement": {},
    "notify-approval-overdue": {},
}
APPROVES: JsonObject = {"reviewDecision": "APPROVED"}
REJECTS: JsonObject = {"reviewDecision": "REJECTED"}
SENIOR_APPROVES: JsonObject = {"seniorDecision": "APPROVED"}
SENIOR_REJECTS: JsonObject = {"seniorDecision": "REJECTED"}
LARGE = 600_000_000

ROWS = [
    pytest.param(720, "0.12", 200_000_000, {}, ["end-approved", "end-disbursed"], id="standard"),
    pytest.param(800, "0.12", 500_000_000, {}, ["end-approved", "end-disbursed"], id="premium, at the limit"),
    pytest.param(
        720,
        "0.12",
        LARGE,
        {"senior-approval-task": SENIOR_APPROVES},
        ["end-approved", "end-disbursed"],
        id="senior approves",
    ),
    pytest.param(
        720,
        "0.12",
        LARGE,
        {"senior-approval-task": SENIOR_REJECTS},
        ["end-approved", "end-disbursement-rejected"],
        id="senior rejects",
    ),
    pytest.param(
        720, "0.12", LARGE, {}, ["end-approved", "end-disbursement-timeout"], id="senior approval timer (8 h)"
    ),
    pytest.param(499, "0.12", 200_000_000, {}, ["end-rejected"], id="low score"),
    pytest.param(800, "0.81", 200_000_000, {}, ["end-rejected"], id="high fraud"),
    pytest.param(
        600,
        "0.12",
        200_000_000,
        {"manual-review-task": APPROVES},
        ["end-approved", "end-disbursed"],
        id="review approves",
    ),
    pytest.param(600, "0.12", 200_000_000, {"manual-review-task": REJECTS}, ["end-rejected"], id="review rejects"),
    pytest.param(600, "0.12", 200_000_000, {}, ["end-escalated"], id="review timer (48 h)"),
]


@pytest.mark.parametrize(("score", "fraud", "amount", "people", "expected"), ROWS)
def test_the_chain_ends_where_the_table_says(
    score: int, fraud: str, amount: int, people: dict[str, JsonObject], expected: list[str]
):
    """Played step by step against the operations, with a clock of the test's own."""
    replies = {**WORKERS, "credit-score": {"creditScore": score}, "fraud-screen": {"fraudScore": Decimal(fraud)}}
    replies["validate-application"] = {**APPLICANT, "loanAmount": amount}
    ends: list[str] = []
    variables: JsonObject = {**APPLICANT, "loanAmount": amount}
    process: Process | None = APPLICATION
    while process is not None:
        world = run(World(process).start("APP-20240417-001", **variables), replies, people)
        assert world.status == "COMPLETED"
        ends += [line.node_id for line in world.lines.values() if line.node_type == "END"]
        process = CHAIN[world.children[0].net] if world.children else None
        variables = world.variables
    assert ends == expected


def run(world: World, replies: dict[str, JsonObject], people: dict[str, JsonObject]) -> World:
    """Let workers do what there is, then people, then time."""
    while not world.instance.is_terminal:
        if world.queue:
            world.complete(world.queue[0], **replies[world.queue[0]])
        elif asked := next((step for step in world.inbox if step in people), None):
            world.finish_task(asked, **people[asked])
        else:
            world.fire()
    return world


@pytest.mark.parametrize(("score", "fraud", "amount", "people", "expected"), ROWS)
def test_a_dry_run_of_the_chain_ends_in_the_same_places(
    score: int, fraud: str, amount: int, people: dict[str, JsonObject], expected: list[str]
):
    jobs: dict[str, JsonValue] = {job: {"variables": reply} for job, reply in WORKERS.items()}
    jobs["validate-application"] = {}
    jobs["credit-score"] = {"variables": {"creditScore": score}}
    jobs["fraud-screen"] = {"variables": {"fraudScore": Decimal(fraud)}}
    stubs = read_stubs({"jobs": jobs, "userTasks": {step: {"variables": answer} for step, answer in people.items()}})
    simulation = simulate(APPLICATION, {**APPLICANT, "loanAmount": amount}, stubs, at=START, successor=CHAIN.get)
    assert [played.ended_at_step for played in simulation.instances] == expected


def test_the_review_is_escalated_after_48_hours_and_the_senior_approval_after_8():
    reviewed = World(APPLICATION).start(**APPLICANT)
    for job in ("validate-application", "credit-score", "fraud-screen"):
        reviewed.complete(job, **{**WORKERS[job], "creditScore": 600})
    (armed,) = reviewed.timers.values()
    assert armed.at == reviewed.clock + 48 * HOUR
    senior = World(DISBURSEMENT).start(**{**APPLICANT, "loanAmount": LARGE})
    (armed,) = senior.timers.values()
    assert armed.at == senior.clock + 8 * HOUR


def test_the_disbursement_gets_the_variables_of_the_application():
    world = run(World(APPLICATION).start(**APPLICANT), WORKERS, {})
    (child,) = world.children
    assert child == StartChild(net="LOS::loan-disbursement-workflow", input=world.variables, awaited_by=None)
    assert world.variables["riskTier"] == "STANDARD"
    started = start_instance(DISBURSEMENT, NewInstance(id="2", variables=world.variables), world.first[1])
    assert started.instance.variables["disbursementFee"] == 2_000_000
    assert started.instance.variables["netAmount"] == 198_000_000
    assert started.instance.variables["requiresSeniorApproval"] is False


def test_both_risk_checks_run_at_once_and_are_joined_in_either_order():
    for order in (("credit-score", "fraud-screen"), ("fraud-screen", "credit-score")):
        world = World(APPLICATION).start(**APPLICANT).complete("validate-application")
        assert world.queue == ["credit-score", "fraud-screen"]
        for job in order:
            world.complete(job, **WORKERS[job])
        assert world.at == ["auto-approve"]


def test_a_risk_check_is_retried_three_times():
    world = World(APPLICATION).start(**APPLICANT).complete("validate-application")
    for _ in range(3):
        assert world.fail("credit-score", "bureau down", retryable=True).status == "ACTIVE"
    assert world.fail("credit-score", "bureau down", retryable=True).reason == "bureau down"
