"""A language as a part of a service: its host, its built-in models, what clients may fire, its pushed jobs."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Protocol

from msgspec import Struct

from statewright.compute.members import Members
from statewright.ids import EntityId, ModelId, TenantId
from statewright.jsonval.values import JsonObject
from statewright.net import uuid_to_ulid
from statewright.net.arrivals import OpenWaits, list_open_waits
from statewright.processes.language import BuiltinModel, I, P, ProcessLanguage
from statewright.services.processes.advancing import find_instance
from statewright.services.processes.hosting import (
    AddSecrets,
    HostedLanguage,
    HostedTransition,
    LostJobs,
    NodeRetry,
    Processes,
    ProcessHost,
)
from statewright.services.processes.jobs import (
    ClaimedJob,
    build_payload,
    check_result,
    complete_job,
    fail_job,
    fail_lost_job,
    find_policy,
    render_job,
    take_report,
)
from statewright.services.processes.push import DoJob, LocalCallouts, Pusher
from statewright.services.processes.result_batches import ResultBatches
from statewright.services.processes.successors import give_up, start_successor, tell_parent
from statewright.services.processes.tasks import answer_task
from statewright.services.processes.timers import fire_due
from statewright.storage.processes.children import DueChild, DueEnd
from statewright.storage.processes.timers import DueTimer


class BackgroundService(Protocol):
    """What goes on until it is cancelled."""

    async def run(self) -> None:
        """Go on until cancelled."""
        ...


class InstalledLanguage(Struct, frozen=True, kw_only=True):
    """What the service needs of a language beside the host's own work."""

    name: str
    models: tuple[BuiltinModel, ...]
    transitions: Mapping[ModelId, HostedTransition]
    host: Callable[[Processes], None]
    """Have a service run its instances from now on."""
    build_pusher: Callable[[Processes, Members, LocalCallouts, "DoJob | None"], BackgroundService]
    """With what does its jobs that are no single request; ``None``: each is one."""


def install_language(
    language: ProcessLanguage[P, I],
    *,
    noun: str = "instance",
    transitions: Mapping[ModelId, HostedTransition] | None = None,
    render_job: Callable[[ClaimedJob], JsonObject] = render_job,
    shares_jobs: bool = False,
    retry_node: "NodeRetry | None" = None,
    add_secrets: "AddSecrets | None" = None,
) -> InstalledLanguage:
    """A language, what clients call an instance, the transitions of its models that they may fire, and the form of its
    jobs. ``shares_jobs``: the workers of the public protocols take them, beside those of other languages.
    ``retry_node``: how an incident at a node is retried. ``add_secrets``: what jobs are given only when they are handed
    out.
    """

    def build_pusher(
        processes: Processes, members: Members, callouts: LocalCallouts, do_job: "DoJob | None"
    ) -> BackgroundService:
        return Pusher(processes.hosts.get(language), members, callouts, render_job, do_job)

    return InstalledLanguage(
        name=language.name,
        models=language.models.all,
        transitions=transitions or {},
        host=partial(
            host_language,
            language=language,
            noun=noun,
            shares_jobs=shares_jobs,
            retry_node=retry_node,
            add_secrets=add_secrets,
        ),
        build_pusher=build_pusher,
    )


def host_language(
    processes: Processes,
    language: ProcessLanguage[P, I],
    *,
    noun: str,
    shares_jobs: bool,
    retry_node: "NodeRetry | None",
    add_secrets: "AddSecrets | None",
) -> None:
    """Run the instances of a language in a service from now on."""
    hosts = processes.hosts
    host = ProcessHost(processes, language, noun=noun)

    async def fire_timer(due: DueTimer) -> bool:
        return await fire_due(host, due) == "fired"

    async def start_child(child: DueChild) -> None:
        await start_successor(host, child)

    async def tell_end(end: DueEnd) -> None:
        await tell_parent(host, end)

    async def list_waits(tenant: TenantId, instance_id: EntityId) -> OpenWaits:
        found = await find_instance(host, tenant, uuid_to_ulid(instance_id))
        return OpenWaits() if found is None else list_open_waits(found.marking)

    losses, reports, answer = language.lease_losses, language.run_reports, language.complete_task
    hosted = HostedLanguage(
        name=language.name,
        metrics=host.metrics,
        shares_jobs=shares_jobs,
        complete_job=ResultBatches(host).complete_job if language.merges_results else partial(complete_job, host),
        fail_job=partial(fail_job, host),
        check_result=partial(check_result, host),
        take_report=None if reports is None else partial(take_report, host, reports),
        lost_jobs=None if losses is None else LostJobs(losses.limit, partial(fail_lost_job, host, losses)),
        build_payload=partial(build_payload, host),
        add_secrets=add_secrets,
        find_policy=partial(find_policy, host),
        fire_timer=fire_timer,
        list_waits=list_waits,
        start_child=start_child,
        give_up_child=partial(give_up, host),
        tell_end=tell_end,
        task_types=language.models.task_types,
        complete_task=None if answer is None else partial(answer_task, host, answer),
        retry_node=retry_node,
    )
    hosts.add(host, hosted)
