"""``statewright ops nodes``, ``rates`` and ``settings``: the processes of the service, and how much they write
(docs/reference/operations.md#nodes).
"""

from typing import TYPE_CHECKING

from statewright.cli.client import with_client
from statewright.cli.documents import AsJson, print_document, print_table
from statewright.cli.ops.requests import get, list_all

if TYPE_CHECKING:
    from statewright.sdk import Client


@with_client
def nodes(client: "Client", as_json: AsJson = False) -> None:
    """List the service processes that are alive."""
    listed = list_all(client, "/nodes", {})
    if as_json:
        print_document(listed)
        return
    names = ("id", "name", "version", "draining", "startedAt", "leaseUntil", "members")
    headers = ("id", "name", "version", "draining", "started", "lease until", "members")
    print_table(headers, [[each[name] for name in names] for each in listed])


@with_client
def rates(client: "Client", as_json: AsJson = False) -> None:
    """Tell what was written in each minute of the last hour."""
    told = get(client, "/rates", {})
    if as_json:
        print_document(told)
        return
    names = ("at", "transactions", "versions")
    print_table(("minute", "transactions", "versions"), [[each[name] for name in names] for each in told["minutes"]])


@with_client
def settings(client: "Client", as_json: AsJson = False) -> None:
    """List the settings of the node that answers; secrets are not shown. For administrators."""
    listed = get(client, "/settings", {})["items"]
    if as_json:
        print_document(listed)
        return
    rows = [[each["name"], each["value"] or "", each["variable"] or "(default)"] for each in listed]
    print_table(("setting", "value", "from"), rows)
