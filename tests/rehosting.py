"""The parts of a running service with a clock of a test's own."""

from msgspec.structs import replace

from statewright.app.runtime import host_languages
from statewright.ids import Clock
from statewright.services.processes.hosting import ProcessHosts
from statewright.services.runtime import Runtime


def rehost(runtime: Runtime, clock: Clock) -> Runtime:
    """Another node on the same database, with that clock, that hosts the languages anew and remembers nothing."""
    core = replace(runtime.core, clock=clock, builtin_transitions={})
    processes = replace(runtime.processes, core=core, hosts=ProcessHosts(clock))
    host_languages(processes)
    return replace(runtime, core=core, processes=processes)
