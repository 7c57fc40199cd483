"""A part of the operations API is there when all that belongs to it is: calls, a command, a method of the client, a
page of help, metrics (docs/reference/operations.md).
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import typer.main
from msgspec import Struct

from statewright.api.http.help.topics import build_topics
from statewright.api.http.openapi import build_openapi_document
from statewright.api.http.ops.routes import OPS_ROUTES
from statewright.cli.main import program
from statewright.sdk.client import Client

ROOT = Path(__file__).parents[3]
METRICS_PAGE = (ROOT / "docs" / "reference" / "metrics.md").read_text()
SOURCES = "\n".join(path.read_text() for path in (ROOT / "src" / "statewright" / "metrics").glob("*.py"))


class Chapter(Struct, frozen=True, kw_only=True):
    """What belongs to a part. ``calls`` are operation ids; ``methods`` and ``commands`` are empty where there is none
    to ask for it by.
    """

    topic: str
    calls: tuple[str, ...] = ()
    commands: tuple[str, ...] = ()
    methods: tuple[str, ...] = ()
    metrics: tuple[str, ...] = ()


CHAPTERS = {
    "keys of requests": Chapter(
        topic="ops.idempotency",
        calls=("getIdempotencyRecord",),
        commands=("ops idempotency",),
        methods=("ops.idempotency",),
        metrics=("statewright_idempotency_total", "statewright_idempotency_records"),
    ),
    "explain": Chapter(
        topic="ops.explain",
        calls=("explainEntity", "explainInstance"),
        commands=("ops explain",),
        methods=("ops.explain", "ops.explain_instance"),
        metrics=("statewright_explains_total",),
    ),
    "members": Chapter(
        topic="ops.members",
        calls=("listMembers", "drainMember"),
        commands=("ops members", "ops drain"),
        methods=("ops.members", "ops.drain"),
        metrics=("statewright_member_calls_total",),
    ),
    "queues": Chapter(
        topic="ops.queues",
        calls=("listQueues", "getQueue", "getCalloutQueue"),
        commands=("ops queues",),
        methods=("ops.queues", "ops.queue"),
        metrics=(
            *("statewright_queue_depth", "statewright_queue_in_flight", "statewright_queue_oldest_age_seconds"),
            *("statewright_queue_workers", "statewright_queues_without_worker"),
        ),
    ),
    "retries": Chapter(
        topic="workflows.retries", metrics=("statewright_callout_retries_total", "statewright_job_retries_total")
    ),
    "incidents": Chapter(
        topic="ops.incidents",
        calls=(
            *("listIncidents", "getIncident", "listIncidentGroups", "retryIncident", "resolveIncident"),
            *("retryIncidentGroup", "resolveIncidentGroup"),
        ),
        commands=("ops incidents list", "ops incidents show", "ops incidents retry", "ops incidents resolve"),
        methods=(
            *("incidents.list", "incidents.get", "incidents.groups", "incidents.retry", "incidents.resolve"),
            *("incidents.retry_group", "incidents.resolve_group"),
        ),
        metrics=("statewright_incidents_open", "statewright_incidents_total", "statewright_incidents_dropped_total"),
    ),
    "suspensions": Chapter(
        topic="ops.suspensions",
        calls=("suspend", "listSuspensions", "getSuspension", "resume"),
        commands=("ops suspend", "ops resume", "ops suspensions"),
        methods=("suspensions.suspend", "suspensions.resume", "suspensions.list", "suspensions.get"),
        metrics=("statewright_suspensions", "statewright_suspended_refusals_total"),
    ),
    "bulk jobs": Chapter(
        topic="ops.bulk",
        calls=(
            *("createBulkJob", "listBulkJobs", "getBulkJob", "listBulkItems", "startBulkJob", "pauseBulkJob"),
            *("resumeBulkJob", "cancelBulkJob", "retryBulkJob", "changeBulkJob"),
        ),
        commands=(
            *("ops bulk", "ops bulk create", "ops bulk list", "ops bulk show", "ops bulk items", "ops bulk start"),
            *("ops bulk pause", "ops bulk resume", "ops bulk cancel", "ops bulk retry-failed", "ops bulk watch"),
        ),
        methods=("bulk.create", "bulk.list", "bulk.get", "bulk.items", "bulk.start", "bulk.change"),
        metrics=("statewright_bulk_jobs", "statewright_bulk_items_total"),
    ),
    "events out": Chapter(
        topic="ops.events-out",
        calls=("getEventRecording", "setEventRecording", "readEvents"),
        commands=("ops events", "ops events recording", "ops events record", "ops events tail"),
        methods=("events.recording", "events.record", "events.read"),
        metrics=("statewright_outbox_rows", "statewright_event_streams"),
    ),
    "subscriptions": Chapter(
        topic="ops.subscriptions",
        calls=(
            *("createSubscription", "listSubscriptions", "getSubscription", "changeSubscription"),
            *("deleteSubscription", "rotateSecret", "testSubscription", "listDeliveries", "redeliver"),
        ),
        commands=(
            *("ops subscriptions", "ops subscriptions list", "ops subscriptions show", "ops subscriptions create"),
            *("ops subscriptions delete", "ops subscriptions test", "ops subscriptions deliveries"),
            *("ops subscriptions redeliver", "ops subscriptions rotate"),
            *("ops subscriptions enable", "ops subscriptions disable"),
        ),
        methods=("subscriptions.create", "subscriptions.list", "subscriptions.change", "subscriptions.redeliver"),
        metrics=(*("statewright_events_lag_seconds", "statewright_deliveries_total", "statewright_delivery_seconds"),),
    ),
    "versions": Chapter(
        topic="ops.versions",
        calls=("listVersions", "getVersion", "compareVersions"),
        commands=("ops versions", "ops diff"),
        methods=("ops.versions", "ops.version", "ops.diff"),
    ),
    "restore": Chapter(
        topic="ops.restore",
        calls=("restoreVersion",),
        commands=("ops restore",),
        methods=("ops.restore",),
        metrics=("statewright_restores_total",),
    ),
    "wait": Chapter(
        topic="ops.wait",
        calls=("waitForEntity", "waitForInstance"),
        commands=("ops wait",),
        methods=("ops.wait", "ops.wait_for_instance"),
        metrics=("statewright_waiters", "statewright_waits_total"),
    ),
    "checks": Chapter(
        topic="ops.check",
        calls=("checkWorkflows",),
        commands=("ops workflow check",),
        methods=("ops.check_workflows",),
    ),
    "simulations": Chapter(
        topic="ops.simulate",
        calls=("simulateWorkflows",),
        commands=("ops workflow simulate",),
        methods=("ops.simulate",),
    ),
    "revisions": Chapter(
        topic="ops.revisions",
        calls=(
            *("listWorkflowRevisions", "getWorkflowRevision"),
            *("compareWorkflowRevisions", "activateWorkflowRevision"),
            *("countRevisionEntities", "countPopulation"),
        ),
        commands=(
            "ops revisions list",
            "ops revisions show",
            "ops revisions diff",
            "ops revisions activate",
            "ops revisions population",
        ),
        methods=(
            *("ops.workflow_revisions", "ops.workflow_revision", "ops.workflow_diff"),
            *("ops.activate_workflows", "ops.population"),
        ),
        metrics=("statewright_workflow_imports_total",),
    ),
    "traces": Chapter(topic="telemetry.traces", metrics=("statewright_spans_dropped_total",)),
    "settings": Chapter(
        topic="ops.settings", calls=("listSettings",), commands=("ops settings",), methods=("ops.settings",)
    ),
    "audit": Chapter(topic="ops.audit", calls=("listOperatorActs",), commands=("ops audit",), methods=("ops.audit",)),
    "searches": Chapter(
        topic="ops.search",
        calls=("searchEntityPages", "findByUniqueKey"),
        commands=("ops search", "ops find"),
        methods=("ops.search", "ops.find"),
    ),
    "counts": Chapter(
        topic="ops.count",
        calls=("countMatchingEntities", "listModelEstimates"),
        commands=("ops count", "ops models"),
        methods=("ops.count", "ops.models"),
    ),
    "transactions": Chapter(
        topic="ops.transactions",
        calls=("listWrittenEntities",),
        commands=("ops transaction",),
        methods=("ops.transaction",),
    ),
    "changes": Chapter(
        topic="ops.changes", calls=("listChanges",), commands=("ops changes",), methods=("ops.changes",)
    ),
    "events of runs": Chapter(
        topic="ops.events", calls=("listEvents",), commands=("ops events list",), methods=("ops.events",)
    ),
    "idle entities": Chapter(
        topic="ops.idle", calls=("listIdleEntities",), commands=("ops idle",), methods=("ops.idle",)
    ),
    "counts of instances": Chapter(
        topic="ops.instances",
        calls=("countInstances", "countSteps"),
        commands=("ops instances",),
        methods=("ops.count_instances", "ops.count_steps"),
    ),
    "messages and search jobs": Chapter(
        topic="ops.messages",
        calls=("listMessages", "listSearchJobs"),
        commands=("ops messages", "ops search-jobs"),
        methods=("ops.messages", "ops.search_jobs"),
    ),
    "nodes": Chapter(topic="ops.nodes", calls=("listNodes",), commands=("ops nodes",), methods=("ops.nodes",)),
    "rates": Chapter(topic="ops.rates", calls=("showRates",), commands=("ops rates",), methods=("ops.rates",)),
}


def list_commands(command: Any, prefix: str = "") -> Iterator[str]:
    """Any: click's, which typer has under its own name."""
    for name, each in getattr(command, "commands", {}).items():
        yield f"{prefix}{name}"
        yield from list_commands(each, f"{prefix}{name} ")


def list_operations(paths: Mapping[str, Mapping[str, Mapping[str, object]]]) -> set[str]:
    return {str(operation["operationId"]) for methods in paths.values() for operation in methods.values()}


TOPICS = {topic.id for topic in build_topics()}
COMMANDS = {*list_commands(typer.main.get_group(program))}
OPERATIONS = list_operations(build_openapi_document()["paths"])


@pytest.mark.parametrize("chapter", CHAPTERS.values(), ids=CHAPTERS)
def test_all_that_belongs_to_a_chapter_is_there(chapter: Chapter) -> None:
    assert chapter.topic in TOPICS
    assert {*chapter.calls} <= OPERATIONS
    assert {*chapter.commands} <= COMMANDS
    with Client("http://127.0.0.1:1") as client:
        for method in chapter.methods:
            part, _, name = method.partition(".")
            assert callable(getattr(getattr(client, part), name)), method
    for metric in chapter.metrics:
        assert f"`{metric}" in METRICS_PAGE, metric
        assert f'"{metric.removesuffix("_total")}"' in SOURCES, metric


def test_every_call_belongs_to_a_chapter() -> None:
    """Whoever adds a route adds what belongs to it."""
    told = {call for chapter in CHAPTERS.values() for call in chapter.calls}
    assert {route.id for route in OPS_ROUTES} - told == {"describeOperationsApi"}


def test_every_command_of_operators_belongs_to_a_chapter() -> None:
    told = {command for chapter in CHAPTERS.values() for command in chapter.commands}
    leaves = {name for name in COMMANDS if name.startswith("ops ")} - {"ops incidents", "ops revisions", "ops workflow"}
    assert leaves == told
