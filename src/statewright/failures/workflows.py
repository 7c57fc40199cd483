"""The failures of workflows, and of runs that they stop (docs/reference/workflows.md#workflows)."""

from statewright.failures.failure import Failure


class ValidationFailed(Failure):
    """A workflow import breaks a static rule (docs/reference/workflows.md#order-of-checks-of-an-import)."""

    code, status = "VALIDATION_FAILED", 400


class SchemaVersionUnsupported(Failure):
    """A workflow declares an import contract newer than this server knows (docs/reference/workflows.md#version)."""

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
    """The wait for a run that commits in segments ended before the run: what it has committed stays, and it may commit
    more. Repeating the request would begin another run; an entity that the transaction names shows that this one came
    to its end, and the transaction's events how far it came.
    """

    def __init__(self, transaction: str) -> None:
        super().__init__(
            f"the service is stopping; what transaction {transaction} has committed stays",
            {"cause": "SERVICE_STOPPING", "transactionId": transaction},
        )


class ScheduleFunctionInvalidResult(Failure):
    """A schedule function answered something that is no schedule (docs/reference/workflows.md#schedule-functions)."""

    code, status = "SCHEDULE_FUNCTION_INVALID_RESULT", 500

    def __init__(self, function: str, reason: str) -> None:
        super().__init__(f"schedule function {function}: {reason}")
