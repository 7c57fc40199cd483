"""Models: schemas of entities (docs/reference/models.md#operations).

Workflows of models (docs/reference/workflows.md#import, docs/reference/workflows.md#export).
"""

from collections.abc import Mapping, Sequence
from typing import Literal, TypeAlias

import msgspec
from msgspec import Struct

from statewright.jsonval.codec import decode
from statewright.jsonval.values import JsonObject, JsonValue
from statewright.operations.checks import WorkflowCheck
from statewright.sdk.operations.calls import (
    Operation,
    build_call,
    build_query,
    quote_segment,
    read_nothing,
    read_object,
)
from statewright.sdk.outcomes import encode_json

ChangeLevel: TypeAlias = Literal["ARRAY_LENGTH", "ARRAY_ELEMENTS", "TYPE", "STRUCTURAL"]
"""How far documents may extend the schema, from little to anything."""
ImportForm: TypeAlias = Literal["SAMPLE_DATA", "JSON_SCHEMA", "SIMPLE_VIEW"]
ExportForm: TypeAlias = Literal["JSON_SCHEMA", "SIMPLE_VIEW"]


class Model(Struct, frozen=True, kw_only=True):
    """A model; ``state`` is UNLOCKED or LOCKED, ``updated`` the time of the last import."""

    id: str
    name: str = msgspec.field(name="modelName")
    version: int = msgspec.field(name="modelVersion")
    state: str = msgspec.field(name="currentState")
    updated: str = msgspec.field(name="modelUpdateDate", default="")


class Verdict(Struct, frozen=True):
    """Whether a document fits its model, and why not."""

    success: bool
    message: str = ""


def list_all(*, with_builtin: bool = False) -> Operation[list[Model]]:
    """The models of the tenant, by name and version. ``with_builtin``: also those that the service itself writes."""
    query = build_query(includeBuiltin=with_builtin or None)
    return Operation(build_call("list_models", "GET", "/model/", query=query), msgspec.json.Decoder(list[Model]).decode)


def import_sample(model: str, version: int, sample: object) -> Operation[str]:
    """Learn the schema from a document; the id of the model. One that exists, unlocked, learns what is new in it."""
    return import_schema(model, version, sample, form="SAMPLE_DATA")


def import_schema(model: str, version: int, schema: object, *, form: ImportForm = "JSON_SCHEMA") -> Operation[str]:
    """Learn the schema from a JSON Schema, or from an export; the id of the model."""
    path = f"/model/import/JSON/{form}/{{}}/{{}}"
    call = build_call("import_model", "POST", path, model, version, body=encode_json(schema))
    return Operation(call, msgspec.json.Decoder(str).decode)


def export_schema(model: str, version: int, *, form: ExportForm = "JSON_SCHEMA") -> Operation[JsonObject]:
    """The schema, with the state of the model and its unique keys."""
    return Operation(build_call("export_model", "GET", f"/model/export/{form}/{{}}/{{}}", model, version), read_object)


def lock(model: str, version: int) -> Operation[None]:
    """Let entities be created from now on; the schema can no longer be imported."""
    return _change("lock_model", "PUT", model, version, "lock")


def unlock(model: str, version: int) -> Operation[None]:
    """Let the model be imported again; only one without entities can be unlocked."""
    return _change("unlock_model", "PUT", model, version, "unlock")


def set_change_level(model: str, version: int, level: ChangeLevel) -> Operation[None]:
    """How far documents may extend the schema from now on (docs/reference/models.md#change-level)."""
    return _change("set_change_level", "POST", model, version, f"changeLevel/{quote_segment(level)}")


def set_unique_keys(model: str, version: int, keys: Mapping[str, Sequence[str]]) -> Operation[None]:
    """Replace the unique keys of an unlocked model: ``{"by-number": ["$.orderNo"]}``."""
    given = {"uniqueKeys": [{"id": name, "fields": list(fields)} for name, fields in keys.items()]}
    return _change("set_unique_keys", "PUT", model, version, "unique-keys", body=encode_json(given))


def validate(model: str, version: int, document: object) -> Operation[Verdict]:
    """Whether a document fits the model as it is; nothing is stored."""
    path, body = "/model/validate/{}/{}", encode_json(document)
    call = build_call("validate_document", "POST", path, model, version, body=body, only_asks=True)
    return Operation(call, msgspec.json.Decoder(Verdict).decode)


def delete(model: str, version: int) -> Operation[None]:
    """Delete an unlocked model without entities; its workflows are kept under its name."""
    return Operation(build_call("delete_model", "DELETE", "/model/{}/{}", model, version), read_nothing)


def _change(
    name: str, method: str, model: str, version: int, action: str, *, body: bytes | None = None
) -> Operation[None]:
    return Operation(build_call(name, method, f"/model/{{}}/{{}}/{action}", model, version, body=body), read_nothing)


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
    if_match: int | None = None,
    note: str | None = None,
) -> Operation[list[Finding]]:
    """Import workflows: one, a list of them, or a whole document with ``workflows``, such as an export. What looks like
    a mistake comes back.

    ``mode`` says what becomes of those there are (MERGE when neither it nor the document says so). ``if_match``: only
    while the model has this revision of its workflows, 0 for none; else it raises ``Refused``
    (``REVISION_MISMATCH``). The ``note`` is kept with the new revision.
    """
    headers = _demand_revision(if_match)
    if note is not None:
        headers["X-Import-Note"] = note
    path, body = "/model/{}/{}/workflow/import", _build_import(workflows, mode, allow_cycles=allow_cycles)
    query = build_query(warnings=True)
    call = build_call("import_workflows", "POST", path, model, version, query=query, headers=headers, body=body)
    return Operation(call, _read_findings)


def check(
    model: str,
    version: int,
    workflows: Sequence[Mapping[str, JsonValue]] | Mapping[str, JsonValue],
    *,
    mode: ImportMode | None = None,
    allow_cycles: bool = False,
    if_match: int | None = None,
) -> Operation[WorkflowCheck]:
    """What ``import_`` would come to, given the same: whether it would be done, what is wrong or looks like a mistake,
    what it would change, and whom that concerns. Nothing is saved. Workflows that would be refused are no failure here.
    """
    path, body = "/model/{}/{}/workflow/import", _build_import(workflows, mode, allow_cycles=allow_cycles)
    query, headers = build_query(dryRun=True), _demand_revision(if_match)
    call = build_call(
        "check_workflows", "POST", path, model, version, query=query, headers=headers, body=body, only_asks=True
    )
    return Operation(call, _read_check)


def _build_import(
    workflows: Sequence[Mapping[str, JsonValue]] | Mapping[str, JsonValue],
    mode: ImportMode | None,
    *,
    allow_cycles: bool,
) -> bytes:
    given = _wrap(workflows)
    if mode is not None:
        given["importMode"] = mode
    if allow_cycles:
        given["allowCycles"] = True
    return encode_json(given)


def _demand_revision(number: int | None) -> dict[str, str]:
    return {} if number is None else {"If-Match": f'"{number}"'}


def export(model: str, version: int) -> Operation[JsonObject]:
    """All workflows of the model, in a document that can be imported again."""
    call = build_call("export_workflows", "GET", "/model/{}/{}/workflow/export", model, version)
    return Operation(call, read_object)


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


def _read_check(body: bytes) -> WorkflowCheck:
    """With the numbers of a witness as they are."""
    return msgspec.convert(decode(body), WorkflowCheck)
