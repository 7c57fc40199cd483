"""Use cases on workflows: import and export per model (docs/reference/workflows.md#import,
docs/reference/workflows.md#export).
"""

import hashlib
from collections.abc import Mapping
from functools import partial
from typing import Final

from msgspec import Struct, structs

from statewright.conditions import KnownFields
from statewright.entity import ModelKey, Principal
from statewright.failures import RevisionMismatch, WorkflowNotFound
from statewright.ids import TenantId, model_id
from statewright.jsonval.codec import decode
from statewright.jsonval.patches import build_json_patch
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


class ImportOptions(Struct, frozen=True, kw_only=True):
    """How an import is carried out. ``if_match``: only while the model has this revision, 0 stands for none. The
    ``note`` is kept with the revision.
    """

    if_match: int | None = None
    note: str | None = None


async def import_workflows(
    core: Core, principal: Principal, *, key: ModelKey, body: bytes, options: ImportOptions
) -> ImportResult:
    """Import workflows in the order of checks of docs/reference/workflows.md#order-of-checks-of-an-import; imports of
    one model follow each other. What is doubtful is logged, and returned. What changes something is a new revision.
    """
    core.builtin.refuse_model(key)
    request = await run_by_size(len(body), partial(decode_import, body))
    request.require_model(key)
    actor = principal.actor
    new = NewRevision(by=actor, origin="IMPORT", mode=request.mode, note=options.note)
    act = _describe_import(key, request, body)
    given = NewWorkflows(request=request, size=len(body), new=new, act=act, if_match=options.if_match)
    return await change_workflows(core, principal.tenant, key, given)


class NewWorkflows(Struct, frozen=True, kw_only=True):
    """Workflows for a model, of ``size`` bytes, and what is recorded with them; see ``ImportOptions``."""

    request: ImportRequest
    size: int
    new: NewRevision
    act: Act
    if_match: int | None


async def change_workflows(core: Core, tenant: TenantId, key: ModelKey, given: NewWorkflows) -> ImportResult:
    """Check and save workflows. Raises ``ModelNotFound``, ``RevisionMismatch``, ``ValidationFailed``."""
    request = given.request
    async with models.edit_model(core.pool, tenant, key) as edit:
        model = await edit.get_model()
        if model is None:
            raise build_not_found(key)
        stored = await edit.get_workflows()
        revision = await edit.find_revision(stored)
        if given.if_match not in (None, revision):
            raise RevisionMismatch(revision)
        size = given.size + len(model.schema) + _BYTES_PER_STEP * count_pattern_steps(request.workflows)
        findings = await run_by_size(size, partial(_check, request, model.schema))
        text = stored.text if stored else "[]"
        merged, saved = await run_by_size(given.size + len(text), partial(_merge, request, text))
        if saved != text:
            revision = await edit.save_revision(given.new, saved)
        details = {**given.act.details, "revision": revision}
        await edit.record(given.new.by, structs.replace(given.act, details=details))
    record = log.bind(tenant=tenant, entityName=key.name, modelVersion=key.version)
    for finding in findings:
        record.warning("workflow_criterion_doubtful", **structs.asdict(finding))
    core.definitions.forget(tenant, edit.id)
    core.workflow_imports[given.new.origin] += 1
    summary = summarise_import(request, merged)
    if merged:
        record.info("workflow_import_applied", **summary)
    else:
        record.warning("workflow_import_left_none", **summary)
    return ImportResult(findings, revision)


def _describe_import(key: ModelKey, request: ImportRequest, body: bytes) -> Act:
    """The import as the trail of operators has it; the hash is that of the body as it was sent."""
    details = {
        "mode": request.mode,
        "hash": f"sha256:{hashlib.sha256(body).hexdigest()}",
        "workflows": len(request.workflows),
    }
    return describe_act("workflow.import", key, details)


def describe_act(action: str, key: ModelKey, details: Mapping[str, object], reason: str | None = None) -> Act:
    """What was done to the workflows of a model; the number of the revision is added when it is known."""
    target = f"{key.name}/{key.version}"
    return Act(action=action, target_kind="MODEL", target_id=target, reason=reason, details=details)


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


async def restore_workflows(
    core: Core, tenant: TenantId, key: ModelKey, text: str, *, new: NewRevision, act: Act, if_match: int | None
) -> int:
    """Make workflows in their stored form all that a model has; the number of its revision then. Endless cascades are
    allowed in them: an import has allowed them once. Raises as ``change_workflows`` does.
    """
    workflows = await run_by_size(len(text), lambda: workflows_from_stored(text.encode()))
    request = ImportRequest(mode="REPLACE", allow_cycles=True, workflows=workflows)
    given = NewWorkflows(request=request, size=len(text), new=new, act=act, if_match=if_match)
    return (await change_workflows(core, tenant, key, given)).revision


async def compare_exports(key: ModelKey, old: str, new: str) -> list[JsonObject]:
    """The JSON Patch that leads from one export document to another; both are given in their stored form."""
    documents = await build_export(key, old), await build_export(key, new)
    return await run_by_size(len(old) + len(new), lambda: build_json_patch(*documents))


async def build_export(key: ModelKey, text: str) -> JsonObject:
    """The export document of workflows in their stored form; there may be none in it."""
    workflows = await run_by_size(len(text), lambda: export(workflows_from_stored(text.encode())))
    return {"entityName": key.name, "modelVersion": key.version, "workflows": workflows}
