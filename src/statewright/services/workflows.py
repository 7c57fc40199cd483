"""Use cases on workflows: import and export per model (spec/workflows.md §4, §6)."""

import structlog

from statewright.entity import ModelKey, Principal
from statewright.failures import WorkflowNotFound
from statewright.identity import model_id
from statewright.jsonval.values import JsonValue
from statewright.services.models import not_found
from statewright.services.runtime import Runtime
from statewright.services.steps.entity_door import refuse_model
from statewright.storage import models
from statewright.workflow import (
    IMPORT_MODES,
    check_incoming,
    check_merged,
    decode_import,
    export,
    from_stored,
    import_summary,
    to_stored,
)

log = structlog.get_logger(__name__)


async def import_workflows(runtime: Runtime, principal: Principal, *, key: ModelKey, body: bytes) -> None:
    """Import workflows in the order of checks of spec/workflows.md §4.2; imports of one model follow each other."""
    refuse_model(key)
    request = decode_import(body)
    async with models.edit(runtime.pool, principal.tenant, key) as edit:
        if await edit.model() is None:
            raise not_found(key)
        doubts = check_incoming(request)
        stored = await edit.workflows()
        merged = IMPORT_MODES[request.mode](from_stored(stored.text.encode()) if stored else (), request.workflows)
        check_merged(merged, allow_cycles=request.allow_cycles)
        await edit.save_workflows(to_stored(merged).decode())
    runtime.definitions.forget(principal.tenant, edit.id)
    record = log.bind(tenant=principal.tenant, entityName=key.name, modelVersion=key.version)
    for doubt in doubts:
        record.warning("workflow_criterion_doubtful", text=doubt)
    summary = import_summary(request, merged)
    if merged:
        record.info("workflow_import_applied", **summary)
    else:
        record.warning("workflow_import_left_none", **summary)


async def export_workflows(runtime: Runtime, principal: Principal, *, key: ModelKey) -> JsonValue:
    """The export document. Raises ``ModelNotFound``, ``WorkflowNotFound``."""
    found = await models.definitions(runtime.pool, principal.tenant, model_id(key.name, key.version))
    if found is None:
        raise not_found(key)
    workflows = from_stored(found.workflows.text.encode()) if found.workflows else ()
    if not workflows:
        raise WorkflowNotFound(f"no workflows found for model {key.name}/{key.version}")
    return {"entityName": key.name, "modelVersion": key.version, "workflows": export(workflows)}
