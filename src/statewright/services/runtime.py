"""The running service as interfaces see it, put together once in ``app``: each use case takes the part it needs."""

from msgspec import Struct
from msgspec.structs import replace

from statewright.services.auth.clients import Administration
from statewright.services.core import Core
from statewright.services.ops.service import Operations
from statewright.services.processes.hosting import Processes
from statewright.storage.pool import Pool


class Runtime(Struct, frozen=True, kw_only=True, eq=False):
    """The parts of one service process."""

    core: Core
    processes: Processes
    operations: Operations
    identity: Administration

    def within(self, pool: Pool) -> "Runtime":
        """The same, for a use case that writes by statements of its own: all of them go over ``pool``."""
        core = self.core.within(pool)
        processes = replace(self.processes, core=core)
        return Runtime(
            core=core,
            processes=processes,
            operations=self.operations.within(core, processes),
            identity=self.identity.within(pool),
        )
