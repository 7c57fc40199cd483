"""The schema of a model: types of documents, their growth, and unique keys (docs/reference/models.md#the-schema,
docs/reference/models.md#change-level, docs/reference/models.md#unique-keys).

A schema is a tree of nodes, inferred from samples and merged with each further one. Documents are validated against it,
or, under a change level, compared with it and merged into it. It is exported in two forms, stored in a third, and
flattened for conditions. Unique keys are defined over its scalar leaves. Pure: no input, no output, no clock.
"""

from statewright.schema.export import EXPORTS, export_document, to_json_schema, to_simple_view
from statewright.schema.growth import FIELD_WEIGHT, INFERENCE_WEIGHT, ChangeLevel, Extender, Extension, extend_schema
from statewright.schema.node import (
    DeclaredField,
    Kind,
    SchemaNode,
    UnreadableSchema,
    count_fields,
    find_sample_limit,
    flatten_fields,
    infer,
    merge,
    normalise,
    require_field_limit,
    schema_from_stored,
    schema_to_stored,
)
from statewright.schema.unique_keys import (
    INCOMPLETE,
    NULL_OR_INVALID,
    Claim,
    InvalidUniqueKey,
    InvalidUniqueKeyDefinition,
    UniqueKey,
    build_claim,
    find_definition_fault,
    read_claims,
)
from statewright.schema.validation import (
    Validator,
    Violation,
    build_validation_failure,
    compile_validator,
    describe_violations,
    validate,
)
from statewright.schema.xml import MalformedXml, xml_to_json

__all__ = [
    "EXPORTS",
    "FIELD_WEIGHT",
    "INCOMPLETE",
    "INFERENCE_WEIGHT",
    "NULL_OR_INVALID",
    "ChangeLevel",
    "Claim",
    "DeclaredField",
    "Extender",
    "Extension",
    "InvalidUniqueKey",
    "InvalidUniqueKeyDefinition",
    "Kind",
    "MalformedXml",
    "SchemaNode",
    "UniqueKey",
    "UnreadableSchema",
    "Validator",
    "Violation",
    "build_claim",
    "build_validation_failure",
    "compile_validator",
    "count_fields",
    "describe_violations",
    "export_document",
    "extend_schema",
    "find_definition_fault",
    "find_sample_limit",
    "flatten_fields",
    "infer",
    "merge",
    "normalise",
    "read_claims",
    "require_field_limit",
    "schema_from_stored",
    "schema_to_stored",
    "to_json_schema",
    "to_simple_view",
    "validate",
    "xml_to_json",
]
