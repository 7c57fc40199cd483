"""Queues: the jobs that the same workers take.

The workers of the public protocols know types of jobs, not languages. So the jobs of all languages that share them are
one queue. Each language also has its own, from which its jobs are pushed to calculation members.
"""

from msgspec import Struct

from statewright.processes.language import I, P
from statewright.services.processes.hosting import HostedLanguage, ProcessHost, ProcessHosts, ProcessMetrics
from statewright.services.runtime import Runtime


class JobQueue(Struct, frozen=True, eq=False):
    """The jobs of some languages in one service."""

    runtime: Runtime
    hosts: ProcessHosts
    languages: tuple[str, ...]
    """At least one."""

    @property
    def metrics(self) -> ProcessMetrics:
        """Where claims are counted, which may find jobs of any of the languages: with the first one."""
        return self.hosts.get_hosted(self.languages[0]).metrics

    def get_language(self, name: str) -> HostedLanguage:
        """One of the languages."""
        return self.hosts.get_hosted(name)


def find_shared_queue(runtime: Runtime) -> JobQueue:
    """The queue of the public protocols."""
    hosts = runtime.extensions.get(ProcessHosts)
    return JobQueue(runtime, hosts, hosts.shared_names)


def get_own_queue(host: ProcessHost[P, I]) -> JobQueue:
    """The queue of one language."""
    return JobQueue(host.runtime, host.shared, (host.language.name,))
