"""``statewright ops …``: the operations API from the command line (docs/reference/operations.md). A module for each
subject, and the commands in the order in which help lists them.
"""

import typer

from statewright.cli.client import ModelCommand
from statewright.cli.ops import (
    audit,
    explain,
    incidents,
    listings,
    nodes,
    queues,
    searches,
    suspensions,
    transactions,
    versions,
    wait,
    workflow_checks,
)

ops = typer.Typer(
    help="Look into a running service: why something waits, who works, what was done.", no_args_is_help=True
)

ops.add_typer(incidents.incidents, name="incidents")
ops.add_typer(workflow_checks.workflow, name="workflow")
for command in (
    explain.explain,
    queues.members,
    queues.drain,
    nodes.nodes,
    nodes.rates,
    nodes.settings,
    queues.queues,
    listings.idle,
    searches.instances,
    searches.models,
    listings.messages,
    versions.versions,
    versions.diff,
    versions.restore,
    wait.wait,
    transactions.transaction,
    transactions.events,
    transactions.changes,
    audit.idempotency,
    audit.audit,
    suspensions.suspend,
    suspensions.resume,
    suspensions.suspensions,
):
    ops.command()(command)
ops.command(cls=ModelCommand)(searches.search)
ops.command(cls=ModelCommand)(searches.count)
ops.command("search-jobs")(listings.search_jobs)
