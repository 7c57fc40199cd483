"""What a model knows about its documents (spec/models.md §5–§9, §11).

A schema is a tree of nodes, inferred from samples and merged with each further one. Documents are validated against it,
or, under a change level, compared with it and merged into it. It is exported in two forms, stored in a third, and
flattened for conditions. Unique keys are defined over its scalar leaves. Pure: no input, no output, no clock.
"""

from statewright.schema.change_level import ChangeLevel, compare_and_extend
from statewright.schema.compiled import Validator, compile_validator
from statewright.schema.export import EXPORTS, export_document, json_schema, simple_view
from statewright.schema.flatten import Declared, declared_types
from statewright.schema.growth import Extender, compile_extender
from statewright.schema.inference import infer, merge
from statewright.schema.node import Kind, Node, normal_form
from statewright.schema.size import require_reasonable
from statewright.schema.stored import UnreadableSchema, from_stored, to_stored
from statewright.schema.unique_keys import (
    INCOMPLETE,
    NULL_OR_INVALID,
    Claim,
    InvalidUniqueKey,
    InvalidUniqueKeyDefinition,
    UniqueKey,
    claims,
    definition_fault,
)
from statewright.schema.validation import Violation, describe, refuse, validate
from statewright.schema.xml import MalformedXml, xml_to_json

__all__ = [
    "EXPORTS",
    "INCOMPLETE",
    "NULL_OR_INVALID",
    "ChangeLevel",
    "Claim",
    "Declared",
    "Extender",
    "InvalidUniqueKey",
    "InvalidUniqueKeyDefinition",
    "Kind",
    "MalformedXml",
    "Node",
    "UniqueKey",
    "UnreadableSchema",
    "Validator",
    "Violation",
    "claims",
    "compare_and_extend",
    "compile_extender",
    "compile_validator",
    "declared_types",
    "definition_fault",
    "describe",
    "export_document",
    "from_stored",
    "infer",
    "json_schema",
    "merge",
    "normal_form",
    "refuse",
    "require_reasonable",
    "simple_view",
    "to_stored",
    "validate",
    "xml_to_json",
]
