"""Computations: what definitions and data of clients make the service compute, in processes that can be killed.

A computation is a function at the top of a module, or ``functools.partial`` of one, with arguments that can be pickled.
Small ones are computed by the event loop within a turn, as ever (:mod:`statewright.loop.turns`); what exceeds a turn
goes to ``ComputationPool.compute``. It runs in a process forked from a server that has imported what is computed with,
within limits of time and memory. Whatever ends that process is a failure of that computation and of nothing else.

- ``pool``: the event loop's end, and which computation is next, so that tenants share the processes.
- ``process``: one process as a thread of this one sees it, which waits for it.
- ``fork_server``: the program that the processes are forked from, and what they do.
- ``messages``: what goes between the two, without holding the interpreter for long.

The reasons are in docs/adr/0026.
"""

from statewright.computations.pool import OUTCOMES, ComputationLimits, ComputationPool, compute_in_turn

__all__ = ["OUTCOMES", "ComputationLimits", "ComputationPool", "compute_in_turn"]
