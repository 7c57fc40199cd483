"""Workflows of models (docs/reference/workflows.md#import, docs/reference/workflows.md#export)."""

from collections.abc import Mapping, Sequence
from typing import Literal, TypeAlias

from statewright.jsonval.values import JsonObject, JsonValue
from statewright.sdk.operations.calls import Call, Operation, build_model_path, read_nothing, read_object
from statewright.sdk.outcomes import encode_json

ImportMode: TypeAlias = Literal["MERGE", "REPLACE", "ACTIVATE"]


def import_(
    model: str,
    version: int,
    workflows: Sequence[Mapping[str, JsonValue]] | Mapping[str, JsonValue],
    *,
    mode: ImportMode | None = None,
    allow_cycles: bool = False,
) -> Operation[None]:
    """Import workflows: a list of them, or a whole document with ``workflows``, such as an export.

    ``mode`` says what becomes of those there are (MERGE when neither it nor the document says so).
    """
    given: dict[str, object] = dict(workflows) if isinstance(workflows, Mapping) else {"workflows": list(workflows)}
    if mode is not None:
        given["importMode"] = mode
    if allow_cycles:
        given["allowCycles"] = True
    call = Call(
        name="import_workflows",
        target=(model, str(version)),
        method="POST",
        path=f"/model/{build_model_path(model, version)}/workflow/import",
        body=encode_json(given),
    )
    return Operation(call, read_nothing)


def export(model: str, version: int) -> Operation[JsonObject]:
    """All workflows of the model, in a document that can be imported again."""
    path = f"/model/{build_model_path(model, version)}/workflow/export"
    return Operation(Call(name="export_workflows", target=(model, str(version)), method="GET", path=path), read_object)
