"""Exports read back into schemas, so that a model can be carried from one tenant or server to another.

Neither format shows all of a schema. What is read is the widest schema that would be exported like this: the
numbers of a JSON Schema get the widest type of their family, because it does not say which one they had. Nullable
containers and the scalars of mixed slots show in neither. Exporting what was read gives the export again.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from statewright.jsonval.values import DataType, JsonObject, JsonValue, extend_path
from statewright.schema.inference import infer, merge_all
from statewright.schema.node import Kind, SchemaNode, leaf, type_set
from statewright.schema.validation import MAX_DEPTH

_INFERABLE: Final[Mapping[tuple[str, str | None], tuple[DataType, ...]]] = {
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

_CANONICAL: Final = {data_type: position for position, data_type in enumerate(DataType)}

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


def from_json_schema(value: JsonValue) -> SchemaNode:
    """The schema that a JSON Schema describes, also a part of one. Raises :class:`MalformedSchema`."""
    return _read_json_schema(value, "$", 0)


def import_json_schema(value: JsonValue) -> SchemaNode:
    """The same of a whole one, which has to look like one: a sample would say nothing as a schema (decision S15)."""
    if isinstance(value, dict) and not value.keys() & _ROOT_KEYWORDS:
        raise MalformedSchema(
            'a JSON Schema has "type", "properties" or "$schema"; the converter of a sample is SAMPLE_DATA'
        )
    return from_json_schema(value)


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


def from_simple_view(value: JsonValue) -> SchemaNode:
    """The schema that a ``SIMPLE_VIEW`` describes. Raises :class:`MalformedSchema`."""
    if not isinstance(value, dict):
        raise MalformedSchema("a SIMPLE_VIEW is an object of paths")
    unread = dict(value)
    root = _read_object("$", unread, 0)
    for path in unread:
        raise MalformedSchema(f'"{path}" is part of no object')
    return root


IMPORTS: Final[Mapping[str, Callable[[JsonValue], SchemaNode]]] = {
    "JSON_SCHEMA": import_json_schema,
    "SIMPLE_VIEW": from_simple_view,
}
"""Converter of an import request that brings a schema and no sample -> how its ``model`` is read."""


def _read_json_schema(value: JsonValue, path: str, depth: int) -> SchemaNode:
    if not isinstance(value, dict):
        raise MalformedSchema(f"the schema at {path} is no object")
    if depth > MAX_DEPTH:
        raise MalformedSchema(f"the schema is nested deeper than {MAX_DEPTH} levels")
    alternatives = _split_alternatives(value, path)
    types = _choose_types([_read_form(each, path) for each in alternatives if _is_scalar(each)])
    nodes = [_read_container(each, path, depth) for each in alternatives if not _is_scalar(each)]
    return merge_all([leaf(*types), *nodes] if types or not nodes else nodes)


def _split_alternatives(schema: JsonObject, path: str) -> list[JsonObject]:
    """The schema as a choice between schemas of one type each; no choice at all for one that says nothing."""
    for keyword in _UNREADABLE:
        if keyword in schema:
            raise MalformedSchema(f'keyword "{keyword}" at {path} cannot be imported')
    for keyword in ("oneOf", "anyOf"):
        if keyword in schema:
            choices = (_require_object(choice, path) for choice in _require_list(schema, keyword, path))
            return [each for choice in choices for each in _split_alternatives(choice, path)]
    match schema.get("type"):
        case str():
            return [schema]
        case list() as names:
            if len(names) > _MAX_TYPES:
                raise MalformedSchema(f'"type" at {path} names more than {_MAX_TYPES} types')
            return [{**schema, "type": name} for name in names]
        case None if "properties" in schema:
            return [{**schema, "type": "object"}]
        case None if "items" in schema:
            return [{**schema, "type": "array"}]
        case None if "enum" in schema or "const" in schema:
            return [schema]
        case None:
            return []
        case _:
            raise MalformedSchema(f'"type" at {path} is no name')


def _is_scalar(schema: JsonObject) -> bool:
    return "type" in schema and schema["type"] not in ("object", "array")


def _read_container(schema: JsonObject, path: str, depth: int) -> SchemaNode:
    match schema.get("type"):
        case "object":
            children = dict[str, SchemaNode]()
            for name, child in _require_object(schema.get("properties", {}), path).items():
                children[name] = _read_json_schema(child, extend_path(path, f".{name}"), depth + 1)
            return SchemaNode(kind=Kind.OBJECT, children=children)
        case "array":
            element = (
                _read_json_schema(schema["items"], extend_path(path, "[*]"), depth + 1) if "items" in schema else None
            )
            return SchemaNode(kind=Kind.ARRAY, element=element)
        case _:
            values = _require_list(schema, "enum", path) if "enum" in schema else [schema["const"]]
            return merge_all([leaf(), *map(infer, values)])


def _read_form(schema: JsonObject, path: str) -> tuple[str, str | None]:
    kind, text_format = schema["type"], schema.get("format")
    if not isinstance(kind, str) or (kind, None) not in _INFERABLE:
        raise MalformedSchema(f'unknown "type" at {path}: {kind}')
    form = kind, text_format if isinstance(text_format, str) else None
    return form if form in _INFERABLE else (kind, None)


def _choose_types(forms: Sequence[tuple[str, str | None]]) -> tuple[DataType, ...]:
    """A type for each form. Exports list types in canonical order, which tells those apart that look alike."""
    types = list[DataType]()
    bound = len(_CANONICAL)
    for form in reversed(forms):
        candidates = _INFERABLE[form]
        below = [candidate for candidate in candidates if _CANONICAL[candidate] < bound]
        chosen = below[-1] if below else candidates[-1]
        bound = _CANONICAL[chosen]
        types.append(chosen)
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


def _read_object(path: str, unread: JsonObject, depth: int) -> SchemaNode:
    """The object described at ``path``, which is taken out of ``unread``; so no description is read twice."""
    if path not in unread:
        raise MalformedSchema(f'"{path}" is not described, or belongs to more than one object')
    if depth > MAX_DEPTH:
        raise MalformedSchema(f"the schema is nested deeper than {MAX_DEPTH} levels")
    children = dict[str, SchemaNode]()
    for entry, text in _require_object(unread.pop(path), path).items():
        if entry == "#":
            continue
        name, child = _read_entry(path, entry, text, unread, depth)
        if name in children:
            raise MalformedSchema(f'"{name}" at {path} is described twice')
        children[name] = child
    return SchemaNode(kind=Kind.OBJECT, children=children)


def _read_entry(path: str, entry: str, text: JsonValue, unread: JsonObject, depth: int) -> tuple[str, SchemaNode]:
    if entry.startswith("#.") and text == "OBJECT":
        name = entry[2:]
        item = unread.get(f"{path}.{name}[*]")
        if isinstance(item, dict) and item.get("#") == "ARRAY_ELEMENT":
            return name, SchemaNode(kind=Kind.ARRAY, element=_read_object(f"{path}.{name}[*]", unread, depth + 1))
        return name, _read_object(f"{path}.{name}", unread, depth + 1)
    if not entry.startswith(".") or not isinstance(text, str):
        raise MalformedSchema(f'"{entry}" at {path} describes nothing')
    scalar = leaf(*_parse_types(text, extend_path(path, entry)))
    if entry.endswith("[*]"):
        return entry[1:-3], SchemaNode(kind=Kind.ARRAY, element=scalar)
    return entry[1:], scalar


def _parse_types(text: str, path: str) -> list[DataType]:
    names = text[1:-1].split(", ") if text.startswith("[") and text.endswith("]") else [text]
    try:
        return [DataType(name) for name in names]
    except ValueError as unknown:
        raise MalformedSchema(f"unknown type at {path}: {text}") from unknown
