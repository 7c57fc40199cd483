"""Workflows of models (docs/reference/workflows.md#import, docs/reference/workflows.md#export)."""

from collections.abc import Mapping, Sequence
from typing import Literal, TypeAlias

import msgspec
from msgspec import Struct

from statewright.jsonval.values import JsonObject, JsonValue
from statewright.sdk.operations.calls import Call, Operation, build_model_path, build_query, read_object
from statewright.sdk.outcomes import encode_json

ImportMode: TypeAlias = Literal["MERGE", "REPLACE", "ACTIVATE"]


class Finding(Struct, frozen=True, kw_only=True):
    """What looks like a mistake in a workflow that was imported all the same
    (docs/reference/workflows.md#findings). ``state`` and ``transition`` are None where it is about a whole workflow.
    """

    workflow: str
    message: str
    state: str | None = None
    transition: str | None = None


def import_(
    model: str,
    version: int,
    workflows: Sequence[Mapping[str, JsonValue]] | Mapping[str, JsonValue],
    *,
    mode: ImportMode | None = None,
    allow_cycles: bool = False,
    dry_run: bool = False,
) -> Operation[list[Finding]]:
    """Import workflows: one, a list of them, or a whole document with ``workflows``, such as an export. What looks like
    a mistake comes back.

    ``mode`` says what becomes of those there are (MERGE when neither it nor the document says so). ``dry_run`` checks
    and saves nothing.
    """
    given = _wrap(workflows)
    if mode is not None:
        given["importMode"] = mode
    if allow_cycles:
        given["allowCycles"] = True
    call = Call(
        name="import_workflows",
        target=(model, str(version)),
        method="POST",
        path=f"/model/{build_model_path(model, version)}/workflow/import",
        query=build_query(dryRun=True) if dry_run else build_query(warnings=True),
        body=encode_json(given),
    )
    return Operation(call, _read_findings)


def export(model: str, version: int) -> Operation[JsonObject]:
    """All workflows of the model, in a document that can be imported again."""
    path = f"/model/{build_model_path(model, version)}/workflow/export"
    return Operation(Call(name="export_workflows", target=(model, str(version)), method="GET", path=path), read_object)


def _wrap(workflows: Sequence[Mapping[str, JsonValue]] | Mapping[str, JsonValue]) -> dict[str, object]:
    """The body of an import."""
    if not isinstance(workflows, Mapping):
        return {"workflows": list(workflows)}
    return dict(workflows) if "workflows" in workflows else {"workflows": [workflows]}


class _Imported(Struct, frozen=True):
    warnings: list[Finding] = []


_decode_imported = msgspec.json.Decoder(_Imported).decode


def _read_findings(body: bytes) -> list[Finding]:
    return _decode_imported(body).warnings
