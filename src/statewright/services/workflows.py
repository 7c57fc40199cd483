"""Use cases on workflows: import and export per model (docs/reference/workflows.md#import,
docs/reference/workflows.md#export).
"""

import hashlib
from functools import partial
from typing import Final

from msgspec import Struct
from msgspec.structs import asdict

from statewright.conditions import KnownFields
from statewright.entity import Actor, ModelKey, Principal
from statewright.failures import WorkflowNotFound
from statewright.ids import model_id
from statewright.jsonval.codec import decode
from statewright.jsonval.values import JsonObject
from statewright.loop.background import run_by_size
from statewright.operations.service import Act
from statewright.schema import flatten_fields, schema_from_stored
from statewright.services.core import Core
from statewright.services.models import build_not_found
from statewright.storage import models
from statewright.storage.ops.revisions import NewRevision
from statewright.telemetry import logs
from statewright.workflow import (
    IMPORT_MODES,
    CriterionFinding,
    ImportRequest,
    Workflow,
    check_incoming,
    check_merged,
    count_pattern_steps,
    decode_import,
    export,
    summarise_import,
    workflows_from_stored,
    workflows_to_stored,
)

log = logs.logger(__name__)


class ImportResult(Struct, frozen=True):
    """What is doubtful in an import, and the number of the revision that the model has after it, 0: none yet."""

    findings: tuple[CriterionFinding, ...]
    revision: int


async def import_workflows(
    core: Core, principal: Principal, *, key: ModelKey, body: bytes, dry_run: bool = False
) -> ImportResult:
    """Import workflows in the order of checks of docs/reference/workflows.md#order-of-checks-of-an-import; imports of
    one model follow each other. What is doubtful is logged, and returned. What changes something is a new revision.

    With ``dry_run`` all is checked and nothing saved.
    """
    core.builtin.refuse_model(key)
    request = await run_by_size(len(body), partial(decode_import, body))
    request.require_model(key)
    async with models.edit_model(core.pool, principal.tenant, key) as edit:
        model = await edit.get_model()
        if model is None:
            raise build_not_found(key)
        size = len(body) + len(model.schema) + _BYTES_PER_STEP * count_pattern_steps(request.workflows)
        findings = await run_by_size(size, partial(_check, request, model.schema))
        stored = await edit.get_workflows()
        text = stored.text if stored else "[]"
        merged, saved = await run_by_size(len(body) + len(text), partial(_merge, request, text))
        revision = await edit.find_revision(stored)
        if not dry_run:
            actor = Actor(principal.id, principal.kind)
            if saved != text:
                revision = await edit.save_revision(NewRevision(by=actor, origin="IMPORT", mode=request.mode), saved)
            await edit.record(actor, _describe_import(key, request, body, revision))
    record = log.bind(tenant=principal.tenant, entityName=key.name, modelVersion=key.version)
    for finding in findings:
        record.warning("workflow_criterion_doubtful", **asdict(finding))
    result = ImportResult(findings, revision)
    if dry_run:
        return result
    core.definitions.forget(principal.tenant, edit.id)
    summary = summarise_import(request, merged)
    if merged:
        record.info("workflow_import_applied", **summary)
    else:
        record.warning("workflow_import_left_none", **summary)
    return result


def _describe_import(key: ModelKey, request: ImportRequest, body: bytes, revision: int) -> Act:
    """The import as the trail of operators has it; the hash is that of the body as it was sent."""
    details = {
        "mode": request.mode,
        "hash": f"sha256:{hashlib.sha256(body).hexdigest()}",
        "workflows": len(request.workflows),
        "revision": revision,
    }
    return Act(action="workflow.import", target_kind="MODEL", target_id=f"{key.name}/{key.version}", details=details)


_BYTES_PER_STEP: Final = 10
"""What a step of compiling patterns counts as in the size of an import."""


def _check(request: ImportRequest, schema: str) -> tuple[CriterionFinding, ...]:
    declared = flatten_fields(schema_from_stored(decode(schema)))
    return check_incoming(request, KnownFields(declared))


def _merge(request: ImportRequest, stored: str) -> tuple[tuple[Workflow, ...], str]:
    """What the import leaves, and the form it is stored in. Raises ``ValidationFailed``."""
    merged = IMPORT_MODES[request.mode](workflows_from_stored(stored.encode()), request.workflows)
    check_merged(merged, allow_cycles=request.allow_cycles)
    return merged, workflows_to_stored(merged).decode()


async def export_workflows(core: Core, principal: Principal, *, key: ModelKey) -> JsonObject:
    """The export document. Raises ``ModelNotFound``, ``WorkflowNotFound``."""
    found = await models.fetch_model_definitions(core.pool, principal.tenant, model_id(key.name, key.version))
    if found is None:
        raise build_not_found(key)
    document = await build_export(key, found.workflows.text if found.workflows else "[]")
    if not document["workflows"]:
        raise WorkflowNotFound(f"no workflows found for model {key.name}/{key.version}")
    return document


async def build_export(key: ModelKey, text: str) -> JsonObject:
    """The export document of workflows in their stored form; there may be none in it."""
    workflows = await run_by_size(len(text), lambda: export(workflows_from_stored(text.encode())))
    return {"entityName": key.name, "modelVersion": key.version, "workflows": workflows}
