"""Schemas from samples written as JSON text, as an import would build them."""

from functools import reduce

from statewright.entity import ModelKey
from statewright.jsonval.codec import decode
from statewright.jsonval.values import JsonValue
from statewright.schema import SchemaNode, describe_violations, infer, merge, normalise, validate

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
