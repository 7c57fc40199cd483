"""The workers of the loan chain. ``bureau`` among the variables stands in for what other companies would answer.

Run with ``statewright node worker:node --url http://127.0.0.1:8080`` in this directory.
"""

from typing import Any

from statewright.sdk import Job, Node, NonRetryable

node = Node()


@node.job("validate-application")
def validate(application: dict[str, Any]) -> dict[str, Any]:
    """Applications without an applicant or an amount will not get better by another try."""
    wanted = ("applicantId", "loanAmount", "applicantEmail")
    if missing := [name for name in wanted if name not in application]:
        raise NonRetryable(f"the application has no {', '.join(missing)}")
    return {name: application[name] for name in wanted}


@node.job("credit-score")
async def credit_score(application: dict[str, Any], job: Job) -> dict[str, Any]:
    """The bureau is away when it is asked for the first time, which the step's retries make up for."""
    if application["bureau"].get("isAway") and job.retries_remaining == 3:
        raise ConnectionError("the bureau is away")
    return {"creditScore": application["bureau"]["creditScore"]}


@node.job("fraud-screen")
def fraud_screen(application: dict[str, Any]) -> dict[str, Any]:
    return {"fraudScore": application["bureau"]["fraudScore"]}


@node.job("approve-loan")
def approve(application: dict[str, Any]) -> dict[str, Any]:
    return {"loanId": f"LOAN-{application['applicantId']}"}


@node.job("escalate-review")
@node.job("notify-disbursement")
@node.job("notify-approval-overdue")
def notify(_application: dict[str, Any]) -> None:
    """A message to somebody sets no variables."""


@node.job("prepare-disbursement")
def prepare(loan: dict[str, Any]) -> dict[str, Any]:
    return {"disbursementId": f"DISB-{loan['loanId']}"}


@node.job("transfer-funds")
def transfer(loan: dict[str, Any], job: Job) -> dict[str, Any]:
    """The job id is the same however often the job is delivered: a bank can tell a repetition by it."""
    return {"transferRef": f"TXN-{job.id}", "transferred": loan["netAmount"]}
