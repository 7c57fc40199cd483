"""JSON Schemas of structs in the words of this document: those that msgspec makes say less of numbers and nulls."""

from collections.abc import Iterable, Mapping
from typing import Final, get_origin

from msgspec import NODEFAULT, Struct, inspect

from statewright.api.http.openapi.operations import ANY_OBJECT, TEXT, Document, allow_null, define_array, ref
from statewright.operations.records import ClosedRecord

_LIMITS: Final = {
    "min_length": "minLength",
    "max_length": "maxLength",
    "pattern": "pattern",
    "gt": "exclusiveMinimum",
    "ge": "minimum",
    "le": "maximum",
}
_LIMITS_OF_ARRAYS: Final = {"min_length": "minItems", "max_length": "maxItems"}

_SCALARS: Final[Mapping[type[inspect.Type], str]] = {
    inspect.StrType: "string",
    inspect.IntType: "integer",
    inspect.FloatType: "number",
    inspect.DecimalType: "number",
    inspect.BoolType: "boolean",
}


def describe_structs(named: Mapping[str, object], *, closed: bool = False) -> Document:
    """The schemas of the document that are types, by name; where one of them is a member it is referred to. ``closed``:
    their members are all that there will be.
    """
    names = {type_: name for name, type_ in named.items()}
    return {
        name: _Schemas(names, of=type_, closed=closed).describe(inspect.type_info(type_))
        for name, type_ in named.items()
    }


class _Schemas:
    """Describes one type; ``names`` are those of structs that have a schema of their own."""

    def __init__(self, names: Mapping[object, str], *, of: object, closed: bool) -> None:
        self._names = names
        self._of = of
        self._closed = closed

    def describe(self, info: inspect.Type) -> Document:
        match info:
            case inspect.Metadata(type=inner, extra_json_schema=said):
                words = dict(said or {})
                return words if words.keys() & {"type", "anyOf"} else self.describe(inner) | words
            case inspect.AnyType() | inspect.RawType():
                return {}
            case inspect.LiteralType(values=(value,)):
                return {"const": value}
            case inspect.LiteralType(values=values):
                return TEXT | {"enum": list(values)}
            case inspect.StructType():
                return self._describe_struct(info)
            case inspect.DictType(value_type=inspect.AnyType()):
                return ANY_OBJECT
            case inspect.DictType(value_type=value):
                return {"type": "object", "additionalProperties": self.describe(value)}
            case inspect.CollectionType(item_type=item):
                return define_array(self.describe(item)) | _list_limits(info, _LIMITS_OF_ARRAYS)
            case inspect.TupleType(item_types=(item, *others)) if all(other == item for other in others):
                return define_array(self.describe(item)) | dict.fromkeys(("minItems", "maxItems"), 1 + len(others))
            case inspect.UnionType(types=types):
                return self._describe_union(types)
            case _:
                return {"type": _SCALARS[type(info)]} | _list_limits(info, _LIMITS)

    def _describe_union(self, types: Iterable[inspect.Type]) -> Document:
        """Of one type and null; other unions are not told apart by JSON Schema as they are here."""
        kinds = [type_ for type_ in types if not isinstance(type_, inspect.NoneType)]
        [kind] = kinds
        schema = allow_null(self.describe(kind))
        return schema | {"enum": [*schema["enum"], None]} if "enum" in schema else schema

    def _describe_struct(self, info: inspect.StructType) -> Document:
        name = None if info.cls == self._of else self._names.get(info.cls)
        if name is not None:
            return ref(name)
        required = [field.encode_name for field in info.fields if self._is_required(info, field)]
        properties = {
            field.encode_name: self.describe(field.type if field.encode_name in required else _drop_null(field))
            for field in info.fields
        }
        return (
            {"type": "object", "properties": properties}
            | ({"required": required} if required else {})
            | ({"additionalProperties": False} if self._closed or _is_closed(info) else {})
        )

    def _is_required(self, info: inspect.StructType, field: inspect.Field) -> bool:
        """Whether it is there at all times: what is sent with its default is, too."""
        kind: type[Struct] = get_origin(info.cls) or info.cls
        is_unset = field.default is NODEFAULT and field.default_factory is NODEFAULT
        return field.required or not (kind.__struct_config__.omit_defaults or is_unset)


def _is_closed(info: inspect.StructType) -> bool:
    return info.forbid_unknown_fields or issubclass(get_origin(info.cls) or info.cls, ClosedRecord)


def _drop_null(field: inspect.Field) -> inspect.Type:
    """A member that is absent in place of being null."""
    info = field.type
    if field.default is not None or not isinstance(info, inspect.UnionType):
        return info
    kinds = tuple(type_ for type_ in info.types if not isinstance(type_, inspect.NoneType))
    return kinds[0] if len(kinds) == 1 else inspect.UnionType(kinds)


def _list_limits(info: inspect.Type, words: Mapping[str, str]) -> Document:
    given = {word: getattr(info, name, None) for name, word in words.items()}
    return {word: limit for word, limit in given.items() if limit is not None}
