"""``statewright ops …``: the operations API from the command line (docs/reference/operations.md). Operations that are
commands as they are, and those with a logic of their own, a module for each subject.
"""

from typing import Final

import typer

from statewright.cli.client import Run, add_command
from statewright.cli.ops import (
    bulk_jobs,
    checks,
    events,
    explanations,
    history,
    incidents,
    listings,
    queues,
    service,
    subscriptions,
    suspensions,
)
from statewright.cli.ops.calls import add_operation
from statewright.operations import table

ops = typer.Typer(
    help="Look into a running service: why something waits, who works, what was done.", no_args_is_help=True
)

FIRST: Final[tuple[Run | table.ApiOperation[object], ...]] = (
    explanations.explain,
    queues.members,
    queues.drain,
    table.LIST_NODES,
    table.SHOW_RATES,
    service.settings,
    queues.queues,
    listings.idle,
    listings.instances,
    table.LIST_MODEL_ESTIMATES,
    table.LIST_MESSAGES,
    table.LIST_VERSIONS,
    history.diff,
    history.restore,
    history.wait,
    table.LIST_WRITTEN_ENTITIES,
    table.LIST_CHANGES,
    service.idempotency,
    table.LIST_OPERATOR_ACTS,
    suspensions.suspend,
    suspensions.resume,
    suspensions.suspensions,
    listings.search,
    table.FIND_BY_UNIQUE_KEY,
    listings.count,
    listings.search_jobs,
)
"""The order in which help lists them; what else the table has comes behind."""

ops.add_typer(incidents.incidents, name="incidents")
ops.add_typer(bulk_jobs.bulk, name="bulk")
ops.add_typer(events.events, name="events")
ops.add_typer(subscriptions.subscriptions, name="subscriptions")
ops.add_typer(checks.workflow, name="workflow")
ops.add_typer(checks.revisions, name="revisions")
others = (one for one in table.OPERATIONS if one.command and " " not in one.command.words and one not in FIRST)
for one in (*FIRST, *others):
    if isinstance(one, table.ApiOperation):
        add_operation(ops, one)
    else:
        add_command(ops, one)
