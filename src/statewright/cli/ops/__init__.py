"""``statewright ops …``: the operations API from the command line (docs/reference/operations.md). A module for each
subject, and the commands in the order in which help lists them.
"""

import typer

from statewright.cli.client import ModelCommand
from statewright.cli.ops import explain, incidents, queues, searches, transactions, versions, workflow_checks

ops = typer.Typer(
    help="Look into a running service: why something waits, who works, what was done.", no_args_is_help=True
)

ops.add_typer(incidents.incidents, name="incidents")
ops.add_typer(workflow_checks.workflow, name="workflow")
for command in (
    explain.explain,
    queues.members,
    queues.drain,
    queues.nodes,
    queues.rates,
    queues.settings,
    queues.queues,
    searches.idle,
    searches.instances,
    searches.models,
    searches.messages,
    versions.versions,
    versions.diff,
    versions.restore,
    explain.wait,
    transactions.transaction,
    transactions.events,
    transactions.changes,
    transactions.idempotency,
    transactions.audit,
    incidents.suspend,
    incidents.resume,
    incidents.suspensions,
):
    ops.command()(command)
ops.command(cls=ModelCommand)(searches.search)
ops.command(cls=ModelCommand)(searches.count)
ops.command("search-jobs")(searches.search_jobs)
