"""The two formats in which a schema is exported (docs/reference/models.md#export-formats), and how exports are read
back, so that a model can be carried from one tenant or server to another.

Neither format shows all of a schema. What is read is the widest schema that would be exported like this: the
numbers of a JSON Schema get the widest type of their family, because it does not say which one they had. Nullable
containers and the scalars of mixed slots show in neither. Exporting what was read gives the export again.

A text of ten megabytes describes a million places, or one place by half a million alternatives. So what is read goes
into places at once (:mod:`statewright.schema.node`), and nothing is kept that grows with the number of alternatives
but references: to free a million objects would stop everything else in the process.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, TypeAlias

import msgspec

from statewright.jsonval.codec import encode, escape_characters
from statewright.jsonval.values import DataType, JsonObject, JsonValue, extend_path
from statewright.schema.node import Kind, Place, SchemaNode, Tally, TypeSet, element_of, learn, type_set
from statewright.schema.unique_keys import UniqueKey
from statewright.schema.validation import MAX_DEPTH

_JSON_TYPES: Final[Mapping[DataType, tuple[str, str | None]]] = {
    DataType.INTEGER: ("integer", None),
    DataType.LONG: ("integer", None),
    DataType.BIG_INTEGER: ("integer", None),
    DataType.UNBOUND_INTEGER: ("integer", None),
    DataType.DOUBLE: ("number", None),
    DataType.BIG_DECIMAL: ("number", None),
    DataType.UNBOUND_DECIMAL: ("number", None),
    DataType.STRING: ("string", None),
    DataType.CHARACTER: ("string", None),
    DataType.LOCAL_DATE: ("string", "date"),
    DataType.LOCAL_DATE_TIME: ("string", "date-time"),
    DataType.LOCAL_TIME: ("string", "time"),
    DataType.ZONED_DATE_TIME: ("string", "date-time"),
    DataType.YEAR: ("string", "year"),
    DataType.YEAR_MONTH: ("string", "year-month"),
    DataType.UUID_TYPE: ("string", "uuid"),
    DataType.TIME_UUID_TYPE: ("string", "uuid"),
    DataType.BYTE_ARRAY: ("string", "byte"),
    DataType.BOOLEAN: ("boolean", None),
    DataType.NULL: ("null", None),
}
"""Data type -> JSON Schema ``type`` and ``format`` (docs/reference/models.md#json_schema)."""

_ESCAPED: Final = "<>&\u2028\u2029"
"""Characters that exports write as escapes (docs/reference/models.md#requests-and-answers)."""


def export_document(model: JsonValue, *, state: str, unique_keys: Sequence[UniqueKey] = ()) -> bytes:
    """The body of an export: equal schemas give equal bytes. ``model`` comes from one of :data:`EXPORTS`."""
    text = b'{"currentState":' + encode(state) + b',"model":' + encode(model)
    if unique_keys:
        text += b',"uniqueKeys":' + msgspec.json.encode(unique_keys)  # by struct: id comes before fields
    return escape_characters(text, _ESCAPED) + b"}"


def to_simple_view(node: SchemaNode) -> JsonValue:
    """A flat map from the paths of objects to what stands in them; empty when the root is no object."""
    view: JsonObject = {}
    if node.kind is Kind.OBJECT:
        _describe(node, "$", view)
    return view


def to_json_schema(node: SchemaNode) -> JsonValue:
    """A minimal JSON Schema; scalars of mixed slots and nullability of containers do not show."""
    if node.kind is Kind.OBJECT:
        properties: JsonObject = {}
        for name, child in node.children.items():
            properties[name] = to_json_schema(child)
        return {"type": "object", "properties": properties}
    if node.kind is Kind.ARRAY:
        return {"type": "array", "items": to_json_schema(element_of(node))}
    return _describe_leaf(node.types)


EXPORTS: Final[Mapping[str, Callable[[SchemaNode], JsonValue]]] = {
    "JSON_SCHEMA": to_json_schema,
    "SIMPLE_VIEW": to_simple_view,
}
"""Converter of an export request -> what it puts into ``model``."""


def _describe(node: SchemaNode, path: str, view: JsonObject) -> JsonObject:
    """Adds the object at ``path``, and those below it, to the view; the descriptor of the object itself."""
    descriptor: JsonObject = {}
    view[path] = descriptor
    for name, child in sorted(node.children.items()):  # sorted: of names that make equal paths the same one always wins
        if child.kind is Kind.LEAF:
            descriptor[f".{name}"] = _format_types(child.types)
        elif child.kind is Kind.OBJECT:
            descriptor[f"#.{name}"] = "OBJECT"
            _describe(child, f"{path}.{name}", view)
        elif (element := element_of(child)).kind is Kind.OBJECT:
            descriptor[f"#.{name}"] = "OBJECT"
            _describe(element, f"{path}.{name}[*]", view)["#"] = "ARRAY_ELEMENT"
        else:
            descriptor[f".{name}[*]"] = _format_types(element.types)
    return descriptor


def _format_types(types: TypeSet) -> str:
    if not types:
        return "NULL"
    return types[0] if len(types) == 1 else f"[{', '.join(types)}]"


def _describe_leaf(types: TypeSet) -> JsonValue:
    alternatives: list[JsonValue] = [_describe_type(data_type) for data_type in types]
    if not alternatives:
        return {}
    return alternatives[0] if len(alternatives) == 1 else {"oneOf": alternatives}


def _describe_type(data_type: DataType) -> JsonValue:
    json_type, text_format = _JSON_TYPES[data_type]
    return {"type": json_type} if text_format is None else {"type": json_type, "format": text_format}


_Form: TypeAlias = tuple[str, str | None]
"""``type`` and ``format`` of a scalar."""

_INFERABLE: Final[Mapping[_Form, tuple[DataType, ...]]] = {
    ("integer", None): (DataType.UNBOUND_INTEGER,),
    ("number", None): (DataType.UNBOUND_DECIMAL,),
    ("string", None): (DataType.STRING,),
    ("string", "date"): (DataType.LOCAL_DATE,),
    ("string", "date-time"): (DataType.LOCAL_DATE_TIME, DataType.ZONED_DATE_TIME),
    ("string", "time"): (DataType.LOCAL_TIME,),
    ("string", "year"): (DataType.YEAR,),
    ("string", "year-month"): (DataType.YEAR_MONTH,),
    ("boolean", None): (DataType.BOOLEAN,),
    ("null", None): (DataType.NULL,),
}
"""JSON Schema ``type`` and ``format`` -> types that a value could have, in canonical order. Every other
format is read as that of a text.
"""

_FORMS: Final[Mapping[_Form, _Form]] = {form: form for form in _INFERABLE}

_CANONICAL: Final = {data_type: position for position, data_type in enumerate(DataType)}

_MAX_SHOWN_CHARS: Final = 100
"""Characters of an unknown type that messages show."""

_MAX_TYPES: Final = 7
"""JSON Schema has no more, and lists none twice."""

_UNREADABLE: Final = ("$ref", "$dynamicRef", "allOf", "not", "if", "prefixItems", "patternProperties")
"""Keywords without which a schema would mean something else; what only annotates or restricts is passed over."""


_KEPT_KEYWORDS: Final = frozenset(("$schema", "type", "format"))
"""Beside those that have schemas in them."""

_ROOT_KEYWORDS: Final = frozenset(("type", "properties", "$schema", "oneOf", "anyOf", *_UNREADABLE))
"""By one of these a JSON Schema is known."""


class MalformedSchema(ValueError):
    """A document that is no schema of the wanted format; the text names the place."""


def from_json_schema(value: JsonValue, max_fields: int | None = None) -> SchemaNode:
    """The schema that a JSON Schema describes, also a part of one.

    Raises :class:`MalformedSchema`, and ``BadRequest`` as soon as there are more than ``max_fields`` places, when such
    a limit is given.
    """
    root = Place()
    _read_json_schema(root, value, "$", 0, Tally(max_fields))
    return root.freeze()


def import_json_schema(value: JsonValue, max_fields: int | None = None) -> SchemaNode:
    """The same of a whole one, which has to look like one: a sample would say nothing as a schema (decision S15)."""
    if isinstance(value, dict) and not value.keys() & _ROOT_KEYWORDS:
        raise MalformedSchema(
            'a JSON Schema has "type", "properties" or "$schema"; the converter of a sample is SAMPLE_DATA'
        )
    return from_json_schema(value, max_fields)


def find_lost_keywords(value: JsonValue) -> tuple[str, ...]:
    """The keywords of a JSON Schema that the model does not keep, each once, with the first place where it stands
    (decision S15). To be asked after the schema was read.
    """
    found: dict[str, str] = {}
    _collect_lost_keywords(value, "$", found)
    return tuple(f"{keyword} at {path}" for keyword, path in sorted(found.items()))


def _collect_lost_keywords(value: JsonValue, path: str, found: dict[str, str]) -> None:
    if not isinstance(value, dict):
        return
    for keyword, inner in value.items():
        if keyword in ("oneOf", "anyOf") and isinstance(inner, list):
            for choice in inner:
                _collect_lost_keywords(choice, path, found)
        elif keyword == "properties" and isinstance(inner, dict):
            for name, child in inner.items():
                _collect_lost_keywords(child, f"{path}.{name}", found)
        elif keyword == "items":
            _collect_lost_keywords(inner, f"{path}[*]", found)
        elif keyword not in _KEPT_KEYWORDS:
            found.setdefault(keyword, path)


def from_simple_view(value: JsonValue, max_fields: int | None = None) -> SchemaNode:
    """The schema that a ``SIMPLE_VIEW`` describes. Raises as :func:`from_json_schema` does."""
    if not isinstance(value, dict):
        raise MalformedSchema("a SIMPLE_VIEW is an object of paths")
    root, view = Place(), _View(value, Tally(max_fields))
    view.read_object(root, "$", 0)
    view.require_read()
    return root.freeze()


IMPORTS: Final[Mapping[str, Callable[[JsonValue, int | None], SchemaNode]]] = {
    "JSON_SCHEMA": import_json_schema,
    "SIMPLE_VIEW": from_simple_view,
}
"""Converter of an import request that brings a schema and no sample -> how its ``model`` is read, up to a number of
places.
"""


def _read_json_schema(place: Place, value: JsonValue, path: str, depth: int, tally: Tally) -> None:
    """Add what a JSON Schema describes to a place."""
    if not isinstance(value, dict):
        raise MalformedSchema(f"the schema at {path} is no object")
    if depth > MAX_DEPTH:
        raise MalformedSchema(f"the schema is nested deeper than {MAX_DEPTH} levels")
    forms = list[_Form]()
    for schema, kind in _list_alternatives(value, path):
        match kind:
            case "object":
                place.add_kind(Kind.OBJECT)
                for name, child in _require_object(schema.get("properties", {}), path).items():
                    inner = place.get_child(name, tally)
                    _read_json_schema(inner, child, extend_path(path, f".{name}"), depth + 1, tally)
            case "array":
                place.add_kind(Kind.ARRAY)
                if "items" in schema:
                    inner = place.get_element(tally)
                    _read_json_schema(inner, schema["items"], extend_path(path, "[*]"), depth + 1, tally)
            case None:
                for each in _require_list(schema, "enum", path) if "enum" in schema else [schema["const"]]:
                    learn(place, each, tally)
            case _:
                forms.append(_read_form(schema, kind, path))
    for data_type in _choose_types(forms):
        place.add_type(data_type)


def _list_alternatives(schema: JsonObject, path: str) -> Iterator[tuple[JsonObject, JsonValue]]:
    """The schemas of one type each between which this one is a choice, with their types; None for one that lists
    values. No choice at all for one that says nothing.
    """
    for keyword in _UNREADABLE:
        if keyword in schema:
            raise MalformedSchema(f'keyword "{keyword}" at {path} cannot be imported')
    for keyword in ("oneOf", "anyOf"):
        if keyword in schema:
            for choice in _require_list(schema, keyword, path):
                yield from _list_alternatives(_require_object(choice, path), path)
            return
    for kind in _list_kinds(schema, path):
        yield schema, kind


def _list_kinds(schema: JsonObject, path: str) -> Sequence[JsonValue]:
    """The types of a schema that is no choice between others."""
    match schema.get("type"):
        case str() as kind:
            return (kind,)
        case list() as names:
            if len(names) > _MAX_TYPES:
                raise MalformedSchema(f'"type" at {path} names more than {_MAX_TYPES} types')
            if not all(isinstance(name, str) for name in names):
                raise MalformedSchema(f'"type" at {path} names what is no type')
            return names
        case None if "properties" in schema:
            return ("object",)
        case None if "items" in schema:
            return ("array",)
        case None:
            return (None,) if "enum" in schema or "const" in schema else ()
        case _:
            raise MalformedSchema(f'"type" at {path} is no name')


def _read_form(schema: JsonObject, kind: JsonValue, path: str) -> _Form:
    """``type`` and ``format``, the latter only if it is known."""
    if not isinstance(kind, str) or (kind, None) not in _INFERABLE:
        raise MalformedSchema(f'unknown "type" at {path}: {str(kind)[:_MAX_SHOWN_CHARS]}')
    text_format = schema.get("format")
    form = _FORMS.get((kind, text_format)) if isinstance(text_format, str) else None
    return form or _FORMS[kind, None]


def _choose_types(forms: Sequence[_Form]) -> tuple[DataType, ...]:
    """A type for each form. Exports list types in canonical order, which tells those apart that look alike."""
    types = set[DataType]()
    bound = len(_CANONICAL)
    for form in reversed(forms):
        candidates = _INFERABLE[form]
        below = [candidate for candidate in candidates if _CANONICAL[candidate] < bound]
        chosen = below[-1] if below else candidates[-1]
        bound = _CANONICAL[chosen]
        types.add(chosen)
    return type_set(types)


def _require_object(value: JsonValue, path: str) -> JsonObject:
    if not isinstance(value, dict):
        raise MalformedSchema(f"an object is expected at {path}")
    return value


def _require_list(schema: JsonObject, keyword: str, path: str) -> list[JsonValue]:
    value = schema[keyword]
    if not isinstance(value, list):
        raise MalformedSchema(f'"{keyword}" at {path} is no array')
    return value


class _View:
    """A ``SIMPLE_VIEW``, none of whose descriptions is read twice."""

    def __init__(self, described: JsonObject, tally: Tally) -> None:
        self._described = described
        self._tally = tally
        self._read = set[str]()

    def require_read(self) -> None:
        """Raises :class:`MalformedSchema` for a description that belongs to no object."""
        if len(self._read) < len(self._described):
            stray = next(path for path in self._described if path not in self._read)
            raise MalformedSchema(f'"{extend_path("", stray)}" is part of no object')

    def read_object(self, place: Place, path: str, depth: int) -> None:
        """Add the object described at ``path`` to a place."""
        if path not in self._described or path in self._read:
            raise MalformedSchema(f'"{extend_path("", path)}" is not described, or belongs to more than one object')
        if depth > MAX_DEPTH:
            raise MalformedSchema(f"the schema is nested deeper than {MAX_DEPTH} levels")
        self._read.add(path)
        place.add_kind(Kind.OBJECT)
        for entry, text in _require_object(self._described[path], path).items():
            if entry != "#":
                self._read_entry(place, path, entry, text, depth)

    def _read_entry(self, place: Place, path: str, entry: str, text: JsonValue, depth: int) -> None:
        if entry.startswith("#.") and text == "OBJECT":
            inner = self._add_member(place, path, entry[2:])
            inner_path = f"{path}.{entry[2:]}"
            if self._describes_items(f"{inner_path}[*]"):
                inner.add_kind(Kind.ARRAY)
                inner, inner_path = inner.get_element(self._tally), f"{inner_path}[*]"
            self.read_object(inner, inner_path, depth + 1)
        elif entry.startswith(".") and isinstance(text, str):
            scalar = self._add_member(place, path, entry[1:].removesuffix("[*]"))
            if entry.endswith("[*]"):
                scalar.add_kind(Kind.ARRAY)
                scalar = scalar.get_element(self._tally)
            for data_type in _parse_types(text, extend_path(path, entry)):
                scalar.add_type(data_type)
        else:
            raise MalformedSchema(f'"{extend_path("", entry)}" at {extend_path("", path)} describes nothing')

    def _add_member(self, place: Place, path: str, name: str) -> Place:
        if name in place.children:
            raise MalformedSchema(f'"{extend_path("", name)}" at {extend_path("", path)} is described twice')
        return place.get_child(name, self._tally)

    def _describes_items(self, path: str) -> bool:
        item = self._described.get(path)
        return path not in self._read and isinstance(item, dict) and item.get("#") == "ARRAY_ELEMENT"


def _parse_types(text: str, path: str) -> list[DataType]:
    listed = text.startswith("[") and text.endswith("]")
    names = text[1:-1].split(", ", len(DataType)) if listed else [text]
    try:
        return [DataType(name) for name in names]
    except ValueError:
        raise MalformedSchema(f"unknown type at {path}: {text[:_MAX_SHOWN_CHARS]}") from None
