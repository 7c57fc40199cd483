"""The schema of a model: types of documents, their growth, and unique keys (docs/reference/models.md#the-schema,
docs/reference/models.md#change-level, docs/reference/models.md#unique-keys).

A schema is a tree of nodes, inferred from samples and merged with each further one. Documents are validated against it,
or, under a change level, compared with it and merged into it. It is exported in two forms, stored in a third, and
flattened for conditions. Unique keys are defined over its scalar leaves. Pure: no input, no output, no clock.
"""

from statewright.schema.change_level import ChangeLevel, compare_and_extend
from statewright.schema.compiler import Validator, compile_validator
from statewright.schema.export import EXPORTS, export_document, to_json_schema, to_simple_view
from statewright.schema.flatten import DeclaredField, flatten_fields
from statewright.schema.growth import Extender, compile_extender
from statewright.schema.inference import infer, merge
from statewright.schema.node import Kind, SchemaNode, find_sample_limit, normalise, require_field_limit
from statewright.schema.stored import UnreadableSchema, schema_from_stored, schema_to_stored
from statewright.schema.unique_keys import (
    INCOMPLETE,
    NULL_OR_INVALID,
    Claim,
    InvalidUniqueKey,
    InvalidUniqueKeyDefinition,
    UniqueKey,
    find_definition_fault,
    read_claims,
)
from statewright.schema.validation import Violation, build_validation_failure, describe_violations, validate
from statewright.schema.xml import MalformedXml, xml_to_json

__all__ = [
    "EXPORTS",
    "INCOMPLETE",
    "NULL_OR_INVALID",
    "ChangeLevel",
    "Claim",
    "DeclaredField",
    "Extender",
    "InvalidUniqueKey",
    "InvalidUniqueKeyDefinition",
    "Kind",
    "MalformedXml",
    "SchemaNode",
    "UniqueKey",
    "UnreadableSchema",
    "Validator",
    "Violation",
    "build_validation_failure",
    "compare_and_extend",
    "compile_extender",
    "compile_validator",
    "describe_violations",
    "export_document",
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
