"""Why something is where it is, what was done, and waiting until something has happened
(docs/reference/operations.md#explain).
"""

from collections.abc import Sequence
from typing import Final, Literal

from msgspec.structs import replace

from statewright.operations import checks, explanations, history, service, table
from statewright.sdk.exchange import Items, make_method, make_script_method
from statewright.sdk.operations.calls import MAX_PAGE_SIZE, Instant, Operation, Page, Script, ask
from statewright.sdk.operations.ops.work import Given, read_list, request, write_duration


def explain(
    entity_id: str, *, at: Instant | None = None, evaluate_functions: bool = False
) -> Operation[explanations.ExplainedEntity]:
    """Why an entity is where it is, and what would move it. ``evaluate_functions`` has members judge the criteria that
    are theirs; that is for operators.
    """
    return request(
        table.EXPLAIN_ENTITY, entity_id, query={"pointInTime": at, "evaluateFunctions": evaluate_functions or None}
    )


def explain_instance(instance_id: str) -> Operation[explanations.ExplainedInstance]:
    """What an instance of a process, in whatever language, waits for."""
    return request(table.EXPLAIN_INSTANCE, instance_id)


def versions(
    entity_id: str, *, states: Sequence[str] = (), since: Instant | None = None, until: Instant | None = None
) -> Script[Page[history.VersionView]]:
    """The versions of an entity, newest first, also of a deleted one. ``until`` is exclusive."""
    return read_list(table.LIST_VERSIONS, entity_id, query={"state": states, "atFrom": since, "atTo": until})


def version(entity_id: str, transaction_id: str) -> Operation[history.WholeVersion]:
    """One version, with its document."""
    return request(table.GET_VERSION, entity_id, transaction_id)


def diff(entity_id: str, *, older: str | None = None, newer: str | None = None) -> Operation[history.Difference]:
    """What changed between two versions; without any, by the last one. Each is a transaction, an instant, ``current``
    or ``previous``.
    """
    return request(table.COMPARE_VERSIONS, entity_id, query={"to": newer, "from": older})


def restore(
    entity_id: str,
    version: str,
    *,
    reason: str,
    paths: Sequence[str] = (),
    transition: str | None = None,
    if_match: str | None = None,
    idempotency_key: str | None = None,
) -> Operation[history.Restored]:
    """Write a former document, or only what is at the JSON Pointers ``paths``, as the next version. For operators.

    ``version`` is a transaction, an instant or ``previous``; the ``reason`` is on record.
    """
    body = history.Restoration(
        version=version, reason=reason, if_match=if_match, transition=transition, paths=tuple(paths) or None
    )
    return request(table.RESTORE_VERSION, entity_id, body=body, key=idempotency_key)


def describe() -> Operation[service.ApiDescription]:
    """What the service offers, and who asks."""
    return request(table.DESCRIBE_OPERATIONS_API)


def transaction(transaction_id: str) -> Script[Page[history.WrittenEntity]]:
    """The entities that a transaction has written, by id."""
    return read_list(table.LIST_WRITTEN_ENTITIES, transaction_id)


def changes(
    *,
    model: str | None = None,
    actor: str | None = None,
    since: Instant | None = None,
    until: Instant | None = None,
    size: int = MAX_PAGE_SIZE,
) -> Script[Page[history.ChangedEntity]]:
    """What runs have done to entities, newest first; ``model`` is a name, ``until`` exclusive. The service looks
    backwards in time: iterate over the whole only with ``since``.
    """
    return read_list(
        table.LIST_CHANGES, query={"model": model, "actor": actor, "atFrom": since, "atTo": until}, size=size
    )


def events(entity_id: str, *, transaction_id: str | None = None) -> Script[Page[history.RunEvent]]:
    """The events of the runs of an entity, those of the newest run first."""
    return read_list(table.LIST_EVENTS, entity_id, query={"transactionId": transaction_id})


def audit(
    *,
    actions: Sequence[str] = (),
    actor: str | None = None,
    target_kind: str | None = None,
    target_id: str | None = None,
    since: Instant | None = None,
    until: Instant | None = None,
) -> Script[Page[service.OperatorAct]]:
    """What operators have done, newest first; an ``action`` is such as ``entity.restore``. For operators."""
    return read_list(
        table.LIST_OPERATOR_ACTS,
        query={
            "action": actions,
            "actor": actor,
            "targetKind": target_kind,
            "targetId": target_id,
            "atFrom": since,
            "atTo": until,
        },
    )


def workflow_revisions(model: str, version: int) -> Script[Page[checks.WorkflowRevision]]:
    """The revisions of the workflows of a model, newest first."""
    return read_list(table.LIST_WORKFLOW_REVISIONS, model, str(version))


def workflow_revision(model: str, version: int, revision: int) -> Operation[checks.WholeRevision]:
    """One revision of the workflows of a model, with its export document."""
    return request(table.GET_WORKFLOW_REVISION, model, str(version), str(revision))


def workflow_diff(
    model: str, version: int, revision: int, *, to: int | None = None
) -> Operation[checks.RevisionDifference]:
    """What changed between two revisions of workflows; without ``to``, from the one before."""
    return request(table.COMPARE_WORKFLOW_REVISIONS, model, str(version), str(revision), query={"to": to})


def activate_workflows(
    model: str, version: int, revision: int, *, reason: str, if_match: int | None = None
) -> Operation[checks.WorkflowRevision]:
    """Bring the workflows of a revision back, as a new one. ``if_match``: only while this is the current one. For
    operators.
    """
    body = checks.Activation(reason=reason, if_match=if_match)
    return request(table.ACTIVATE_WORKFLOW_REVISION, model, str(version), str(revision), body=body)


def population(model: str, version: int, *, revision: int | None = None) -> Operation[checks.Population]:
    """How many entities a model has by workflow, state and the revision of the workflows under which they were moved
    last; with ``revision``, only those of this one.
    """
    if revision is None:
        return request(table.COUNT_POPULATION, model, str(version))
    return request(table.COUNT_REVISION_ENTITIES, model, str(version), str(revision))


def idempotency(key: str, *, principal: str | None = None) -> Operation[service.IdempotencyRecord]:
    """What became of a request with an idempotency key; of another principal, for operators."""
    return request(table.GET_IDEMPOTENCY_RECORD, key, query={"principal": principal})


def settings() -> Operation[tuple[service.Setting, ...]]:
    """The settings of the node that answers; secrets are not told. For administrators."""
    asked = request(table.LIST_SETTINGS)
    return Operation(asked.call, lambda body: asked.read(body).items)


LONGEST_S: Final = 50.0
"""Seconds that the service holds one request."""


def wait(
    entity_id: str, *, states: Sequence[str] = (), after: str | None = None, timeout_s: float = 30.0
) -> Script[history.EntityWait]:
    """Wait until an entity is in one of the states; without states, until it has a version newer than the transaction
    ``after``; without either, until no transition leads out of its state. ``timeout_s`` may be any number of seconds.

    That the time is over is no failure: see ``reached``.
    """
    left_s, behind = timeout_s, after
    while True:
        query: Given = {
            "state": states,
            "after": behind,
            "timeout": write_duration(min(max(left_s, 0.0), LONGEST_S)),
        }
        asked = request(table.WAIT_FOR_ENTITY, entity_id, query=query)
        found = yield from ask(replace(asked, call=replace(asked.call, name="wait")))
        left_s -= max(found.waited_ms / 1000, SHORTEST_S)
        if found.reached or found.deleted or left_s <= 0:
            return found
        if states:  # what is entered and left between two requests counts, too
            behind = found.transaction_id or behind


def wait_for_instance(
    instance_id: str, *, until: Literal["FINISHED", "WAITING"] = "FINISHED", timeout_s: float = 30.0
) -> Script[history.InstanceWait]:
    """Wait until an instance of a process has ended, or, with ``WAITING``, waits for a person or a signal, or has
    ended. ``timeout_s`` may be any number of seconds.
    """
    left_s = timeout_s
    while True:
        query: Given = {"until": until, "timeout": write_duration(min(max(left_s, 0.0), LONGEST_S))}
        found = yield from ask(request(table.WAIT_FOR_INSTANCE, instance_id, query=query))
        left_s -= max(found.waited_ms / 1000, SHORTEST_S)
        if found.reached or found.deleted or left_s <= 0:
            return found


SHORTEST_S: Final = 0.1
"""Seconds that a wait counts for at least: a node that is about to end answers at once, and is not asked for ever."""


class HistoryMethods:
    """The methods of ``Client.ops`` that are about entities, instances and what was done."""

    describe = make_method(describe)
    explain = make_method(explain)
    explain_instance = make_method(explain_instance)
    wait = make_script_method(wait)
    wait_for_instance = make_script_method(wait_for_instance)
    versions = Items(versions)
    version = make_method(version)
    diff = make_method(diff)
    restore = make_method(restore)
    transaction = Items(transaction)
    events = Items(events)
    changes = Items(changes)
    workflow_revisions = Items(workflow_revisions)
    workflow_revision = make_method(workflow_revision)
    workflow_diff = make_method(workflow_diff)
    activate_workflows = make_method(activate_workflows)
    population = make_method(population)
    idempotency = make_method(idempotency)
    audit = Items(audit)
    settings = make_method(settings)
