"""Revisions of the workflows of a model (docs/reference/operations.md#revisions-of-workflows)."""

from collections.abc import Sequence

from msgspec.structs import asdict, replace

from statewright.entity import ModelKey
from statewright.failures import RevisionNotFound
from statewright.ids import ModelId, model_id
from statewright.operations.checks import (
    Activation,
    Population,
    PopulationItem,
    RevisionDifference,
    WholeRevision,
    WorkflowRevision,
)
from statewright.services.core import Caller, Core
from statewright.services.models import build_not_found
from statewright.services.ops.paging import Page, PageRequest, build_page
from statewright.services.workflows import build_export, compare_exports, describe_act, restore_workflows
from statewright.storage import models
from statewright.storage.ops import revisions as stored
from statewright.storage.ops.revisions import NewRevision, StoredRevision
from statewright.storage.ops.revisions import RevisionKey as RevisionKey
from statewright.workflow import Workflow, find_governing


async def list_revisions(
    core: Core, caller: Caller, key: ModelKey, page: PageRequest[RevisionKey]
) -> Page[WorkflowRevision, RevisionKey]:
    """The revisions of a model, newest first. Raises ``ModelNotFound``, ``Forbidden`` for a built-in model."""
    model = await _require_model(core, caller, key)
    found = await stored.fetch_revisions(core.pool, caller.tenant, model, limit=page.size + 1, after=page.after)
    return build_page(page, found, lambda each: RevisionKey(each.revision))


async def get_revision(core: Core, caller: Caller, key: ModelKey, number: int) -> WholeRevision:
    """A revision with its export document. Raises ``ModelNotFound``, ``RevisionNotFound``, ``Forbidden``."""
    found = await _find(core, caller, key, number)
    return WholeRevision(**asdict(found.view), document=await build_export(key, found.text))


async def compare_revisions(
    core: Core, caller: Caller, key: ModelKey, number: int, *, to: int | None
) -> RevisionDifference:
    """What leads from a revision to another; without ``to``, from the one before to this. The first is compared with
    no workflows. Raises ``ModelNotFound``, ``RevisionNotFound``, ``Forbidden``.
    """
    older, newer = (number - 1, number) if to is None else (number, to)
    after = await _find(core, caller, key, newer)
    before = await _find(core, caller, key, older) if older or to is not None else None
    patch = await compare_exports(key, before.text if before else "[]", after.text)
    return RevisionDifference(older=older if before else None, newer=newer, patch=tuple(patch))


async def activate_revision(
    core: Core, caller: Caller, key: ModelKey, number: int, activation: Activation
) -> WorkflowRevision:
    """Bring the workflows of a revision back; the revision that the model has then, a new one if it had others.

    They are checked like an import, against the model as it is now; endless cascades that an import allowed stay
    allowed. Raises ``ModelNotFound``, ``RevisionNotFound``, ``RevisionMismatch``, ``ValidationFailed``, ``Forbidden``.
    """
    found = await _find(core, caller, key, number)
    details = {"activated": number, "hash": f"sha256:{found.view.hash}"}
    revision = await restore_workflows(
        core,
        caller.tenant,
        key,
        found.text,
        new=NewRevision(by=caller.principal.actor, origin="ROLLBACK", note=activation.reason),
        act=describe_act("workflow.activate", key, details, activation.reason),
        if_match=activation.if_match,
    )
    return (await _find(core, caller, key, revision)).view


async def count_population(core: Core, caller: Caller, key: ModelKey, number: int | None = None) -> Population:
    """Where the entities of a model are, or those that were moved last under a revision.

    Raises ``ModelNotFound``, ``RevisionNotFound``, ``SearchTimeout``, ``Forbidden``.
    """
    if number is not None:
        await _find(core, caller, key, number)
    core.builtin.refuse_model(key)
    definition = await core.definitions.find(caller.tenant, key)
    if definition is None:
        raise build_not_found(key)
    found = await stored.count_entities(core.pool, caller.tenant, definition.model.id, number)
    items = tuple(_judge(item, definition.model.workflows) for item in found)
    return Population(total=sum(item.count for item in items), items=items)


def _judge(item: PopulationItem, workflows: Sequence[Workflow]) -> PopulationItem:
    is_known = find_governing(workflows, item.state, item.workflow) is not None
    return item if is_known else replace(item, issue="STATE_REMOVED")


async def _find(core: Core, caller: Caller, key: ModelKey, number: int) -> StoredRevision:
    model = await _require_model(core, caller, key)
    found = await stored.find_revision(core.pool, caller.tenant, model, number)
    if found is None:
        raise RevisionNotFound(f"model {key.name}/{key.version} has no revision {number} of its workflows")
    return found


async def _require_model(core: Core, caller: Caller, key: ModelKey) -> ModelId:
    core.builtin.refuse_model(key)
    model = model_id(key.name, key.version)
    if await models.fetch_revision(core.pool, caller.tenant, model) is None:
        raise build_not_found(key)
    return model
