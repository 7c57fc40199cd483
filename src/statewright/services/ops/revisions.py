"""Revisions of the workflows of a model (docs/reference/operations.md#revisions-of-workflows)."""

from msgspec.structs import asdict

from statewright.entity import ModelKey
from statewright.failures import RevisionNotFound
from statewright.ids import ModelId, model_id
from statewright.operations.checks import WholeRevision, WorkflowRevision
from statewright.services.core import Caller, Core
from statewright.services.models import build_not_found
from statewright.services.ops.paging import Page, PageRequest, build_page
from statewright.services.workflows import build_export
from statewright.storage import models
from statewright.storage.ops import revisions as stored
from statewright.storage.ops.revisions import RevisionKey as RevisionKey
from statewright.storage.ops.revisions import StoredRevision


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
