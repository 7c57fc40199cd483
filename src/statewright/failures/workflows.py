"""Workflows, and runs that they stop (spec/workflows.md)."""

from statewright.failures.failure import Failure


class ValidationFailed(Failure):
    """A workflow import breaks a static rule (spec/workflows.md §5)."""

    code, status = "VALIDATION_FAILED", 400


class SchemaVersionUnsupported(Failure):
    """A workflow declares an import contract newer than this server knows (spec/workflows.md §3)."""

    code, status = "WORKFLOW_SCHEMA_VERSION_UNSUPPORTED", 400


class WorkflowNotFound(Failure):
    """No workflow was imported for the model."""

    code, status = "WORKFLOW_NOT_FOUND", 404


class TransitionNotFound(Failure):
    """The named transition cannot be fired by name in the entity's current state."""

    code, status = "TRANSITION_NOT_FOUND", 404


class WorkflowFailed(Failure):
    """A run ended because a criterion, a processor or a limit stopped it; nothing of it is kept."""

    code, status = "WORKFLOW_FAILED", 400


class RunCutOff(WorkflowFailed):
    """The caller was sent away from a run that commits in segments: what it has committed so far stays, and it may
    commit more. Repeating the request would begin another run; the transaction tells what became of this one.
    """

    def __init__(self, transaction: str) -> None:
        super().__init__(
            f"the service is stopping; what transaction {transaction} has committed stays",
            {"cause": "SERVICE_STOPPING", "transactionId": transaction},
        )


class ScheduleFunctionInvalidResult(Failure):
    """A schedule function answered something that is no schedule (spec/workflows.md §13.3)."""

    code, status = "SCHEDULE_FUNCTION_INVALID_RESULT", 500

    def __init__(self, function: str, reason: str) -> None:
        super().__init__(f"schedule function {function}: {reason}")
