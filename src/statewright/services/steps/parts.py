"""What the step engine keeps in each process."""

from statewright.identity import Clock, EntityId, TenantId
from statewright.services.steps.due_children import DueChildren
from statewright.services.steps.moments import Moments
from statewright.services.steps.processes import Processes
from statewright.services.steps.recent import MAX_INSTANCES, MAX_JOBS, Loaded, Recent
from statewright.services.steps.tally import Tally
from statewright.services.steps.turns import Turns
from statewright.services.steps.wakeups import Wakeups
from statewright.storage.pool import Pool


class StepParts:
    """Caches, queues and counters of one process; nothing of it outlives the process, or has to."""

    def __init__(self, pool: Pool, clock: Clock) -> None:
        self.wakeups = Wakeups()
        self.tally = Tally()
        self.moments = Moments(clock)
        self.children = DueChildren()
        self.turns = Turns()
        self.processes = Processes(pool)
        self.recent: Recent[Loaded] = Recent(MAX_INSTANCES)
        self.instances_of_jobs: Recent[EntityId] = Recent(MAX_JOBS)
        self.equipped: set[TenantId] = set()
        """Tenants whose built-in models are known to be there."""
