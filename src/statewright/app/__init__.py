"""The one place where the parts are put together.

Start-up goes inside out: admin listener (alive, not ready), database and migrations, definitions and engine, gRPC,
HTTP; then the process is ready. Shutdown goes outside in: not ready, no new calls, calls in flight and runs whose
client has gone finish, member streams end, pools, database. One limit holds for all of this (``ShutdownBudget``);
what outlasts it is cut off. A signal during start-up undoes what was started so far.

:mod:`service` tells this in its order, and :mod:`serving` is the command; the other modules each make one part from the
settings.
"""

from statewright.app.database import StartFailed, apply_migrations
from statewright.app.service import Service, run_service, run_warm_service, run_without_listeners
from statewright.app.serving import serve

__all__ = [
    "Service",
    "StartFailed",
    "apply_migrations",
    "run_service",
    "run_warm_service",
    "run_without_listeners",
    "serve",
]
