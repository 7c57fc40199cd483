"""The groups of operations, in the order in which one meets them: a model, its workflow, then entities."""

from typing import Final

TAGS: Final = {
    "Models": "What documents look like: import from samples, lock, export",
    "Workflows": "States and transitions of the entities of a model: import and export",
    "Entities": "Create, read, update and delete; fire transitions",
    "Search": "Conditions over documents and metadata, direct or asynchronous, now or at an instant",
    "Statistics": "Counts by state and grouped aggregates",
    "Audit": "What runs have done to an entity",
    "Messages": "Edge messages: content with headers, kept as it came",
    "Calculation members": "The gRPC protocol of nodes that answer callouts: sources and schemas",
    "Step definitions": "JSON step engine: upload and look at definitions",
    "Step instances": "JSON step engine: start, watch, signal and cancel instances",
    "Step jobs": "JSON step engine: poll, complete and fail jobs",
    "Step user tasks": "JSON step engine: the inbox of people",
    "Flow definitions": "Flows: check, store and look at texts",
    "Playbook definitions": "Playbooks: check, store and look at documents",
    "Playbook executions": "Playbooks: start, watch, change and stop executions; their runs are among the jobs above",
    "Flow instances": "Flows: start, watch, stop and restart instances; their tasks are among the jobs above",
    "Ops": "The operations API: what operators and automation need beyond moving entities",
    "Account": "How credentials are understood",
    "Identity": "Tokens and the keys that verify them",
    "Signing keys": "Key pairs of the service: issue, rotate and end them (jwt mode)",
    "Trusted keys": "Public keys of others whose signatures a tenant trusts (jwt mode)",
    "Identity providers": "OpenID Connect providers whose tokens are credentials of a tenant (jwt mode)",
    "Clients": "Machine clients of a tenant, and their secrets (jwt mode)",
    "Administration": "A running process: log level, history",
    "Operations": "Health, help and this document",
}


def order_tag(tag: str) -> int:
    """The place of a tag; one that is not listed comes last."""
    return list(TAGS).index(tag) if tag in TAGS else len(TAGS)
