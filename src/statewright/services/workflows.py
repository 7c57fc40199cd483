"""Use cases on workflows: import and export per model (docs/reference/workflows.md#import,
docs/reference/workflows.md#export).
"""

from statewright import logs
from statewright.entity import ModelKey, Principal
from statewright.failures import WorkflowNotFound
from statewright.ids import model_id
from statewright.jsonval.values import JsonValue
from statewright.services.models import build_not_found
from statewright.services.runtime import Runtime
from statewright.storage import models
from statewright.workflow import (
    IMPORT_MODES,
    check_incoming,
    check_merged,
    decode_import,
    export,
    summarise_import,
    workflows_from_stored,
    workflows_to_stored,
)

log = logs.logger(__name__)


async def import_workflows(runtime: Runtime, principal: Principal, *, key: ModelKey, body: bytes) -> None:
    """Import workflows in the order of checks of docs/reference/workflows.md#order-of-checks-of-an-import; imports of
    one model follow each other.
    """
    runtime.builtin.refuse_model(key)
    request = decode_import(body)
    request.require_model(key)
    async with models.edit_model(runtime.pool, principal.tenant, key) as edit:
        if await edit.get_model() is None:
            raise build_not_found(key)
        doubts = check_incoming(request)
        stored = await edit.get_workflows()
        merged = IMPORT_MODES[request.mode](
            workflows_from_stored(stored.text.encode()) if stored else (), request.workflows
        )
        check_merged(merged, allow_cycles=request.allow_cycles)
        await edit.save_workflows(workflows_to_stored(merged).decode())
    runtime.definitions.forget(principal.tenant, edit.id)
    record = log.bind(tenant=principal.tenant, entityName=key.name, modelVersion=key.version)
    for doubt in doubts:
        record.warning("workflow_criterion_doubtful", text=doubt)
    summary = summarise_import(request, merged)
    if merged:
        record.info("workflow_import_applied", **summary)
    else:
        record.warning("workflow_import_left_none", **summary)


async def export_workflows(runtime: Runtime, principal: Principal, *, key: ModelKey) -> JsonValue:
    """The export document. Raises ``ModelNotFound``, ``WorkflowNotFound``."""
    found = await models.fetch_model_definitions(runtime.pool, principal.tenant, model_id(key.name, key.version))
    if found is None:
        raise build_not_found(key)
    workflows = workflows_from_stored(found.workflows.text.encode()) if found.workflows else ()
    if not workflows:
        raise WorkflowNotFound(f"no workflows found for model {key.name}/{key.version}")
    return {"entityName": key.name, "modelVersion": key.version, "workflows": export(workflows)}
