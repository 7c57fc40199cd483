"""Schemas from samples written as JSON text, as an import would build them."""

from collections.abc import Sequence
from functools import reduce

from statewright.entity import ModelKey
from statewright.jsonval.codec import decode
from statewright.jsonval.values import JsonValue
from statewright.schema import (
    ChangeLevel,
    Extender,
    SchemaNode,
    UniqueKey,
    describe_violations,
    extend_schema,
    find_sample_limit,
    infer,
    merge,
    normalise,
    validate,
)

INVOICE = ModelKey("invoice", 1)


def schema_of(*samples: str) -> SchemaNode:
    """What a model knows after importing the samples one after the other."""
    return reduce(learn, map(decode, samples[1:]), normalise(infer(decode(samples[0]))))


def learn(schema: SchemaNode, sample: JsonValue) -> SchemaNode:
    """The schema after one more import."""
    return normalise(merge(schema, infer(sample)))


def types_of(value: str) -> str:
    """The names of the types of a sample that is one scalar."""
    return " ".join(infer(decode(value)).types)


def complaints(schema: SchemaNode, document: str) -> str:
    return describe_violations(validate(schema, decode(document)))


def compare_and_extend(
    schema: SchemaNode, document: JsonValue, level: ChangeLevel, unique_keys: Sequence[UniqueKey] = ()
) -> SchemaNode:
    """The schema after a document, by comparing and merging."""
    return extend_schema(schema, infer(document, find_sample_limit(schema)), level, unique_keys)


def extend_compiled(
    schema: SchemaNode, document: JsonValue, level: ChangeLevel, unique_keys: Sequence[UniqueKey] = ()
) -> SchemaNode:
    """The schema after a document, as documents of a service are held against it."""
    extension = Extender(schema, level, unique_keys).extend(document)
    return schema if extension is None else extension.schema
