"""How many instances are where (docs/reference/operations.md#counts-of-instances)."""

from statewright.services.runtime import Caller, Runtime
from statewright.storage.ops import instance_counts
from statewright.storage.ops.instance_counts import InstanceCount as InstanceCount
from statewright.storage.ops.instance_counts import StepCount as StepCount


async def count_instances(
    runtime: Runtime, caller: Caller, *, language: str | None, definition_id: str | None
) -> tuple[tuple[InstanceCount, ...], bool]:
    """Instances by definition and status, and whether all were counted. Raises ``SearchTimeout``."""
    return await instance_counts.count_instances(
        runtime.pool, caller.tenant, language=language, definition_id=definition_id
    )


async def count_steps(
    runtime: Runtime, caller: Caller, *, language: str, definition_id: str
) -> tuple[tuple[StepCount, ...], bool]:
    """Executions under way by step of a definition, and whether all were counted. Raises ``SearchTimeout``."""
    return await instance_counts.count_steps(
        runtime.pool, caller.tenant, language=language, definition_id=definition_id
    )
