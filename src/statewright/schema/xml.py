"""XML documents as JSON values (docs/reference/models.md#xml).

``<order id="7"><line>a</line><line>b</line><note lang="en">hi</note></order>`` is
``{"id": 7, "line": ["a", "b"], "note": {"lang": "en", "_text": "hi"}}``.

Read as events, without namespace processing: prefixes are cut off, and ``xmlns`` attributes are fields like any other.
Entities declared by a document are refused: data have no use for them, and they are the usual means of attack by XML.
"""

from collections.abc import Callable
from typing import Final, TypeAlias
from xml.sax import SAXParseException
from xml.sax.handler import ContentHandler
from xml.sax.xmlreader import AttributesImpl, IncrementalParser

from defusedxml import DefusedXmlException, expatreader

from statewright.jsonval.codec import EXPANDS_TOO_FAR, MAX_NESTING, encode_large, expands_too_far, is_nested_too_deep
from statewright.jsonval.scanning import UnusableNumber, format_depth_error, read_number
from statewright.jsonval.values import JsonObject, JsonValue, member_path
from statewright.loop.turns import take_apart

_CreateParser: TypeAlias = Callable[[], IncrementalParser]
_create_parser: Final[_CreateParser] = expatreader.create_parser

MAX_TAG_BYTES: Final = 1024 * 1024
"""Longest tag or comment; each is read without a pause, and again with each part of the document until it ends."""

MAX_NAMES: Final = 100_000
"""Different names of elements and attributes: no model has as many fields, and the parser frees its table of them
without a pause.
"""

_PART_BYTES: Final = 64 * 1024

_ROOT_TEXT: Final = "_value"
_TEXT: Final = "_text"
_BOOLEANS: Final = {
    **dict.fromkeys(("t", "T", "true", "True", "TRUE"), True),
    **dict.fromkeys(("f", "F", "false", "False", "FALSE"), False),
}


class MalformedXml(ValueError):
    """A text that is no XML document, or one that has no equivalent in JSON."""


def xml_to_json(raw: bytes) -> JsonValue:
    """The value of the root element; an object, always. Raises :class:`MalformedXml`."""
    reader = _Reader()
    try:
        _parse(raw, reader)
        _require_storable(reader.document)
    except SAXParseException as error:
        reader.discard()
        place = f"line {error.getLineNumber()}, column {error.getColumnNumber()}"
        raise MalformedXml(f"{error.getMessage()} ({place})") from error
    except DefusedXmlException as error:
        reader.discard()
        raise MalformedXml("declarations of entities and external references are not allowed") from error
    except (
        ValueError,
        LookupError,
    ) as error:  # what Python says of encodings that it does not know or expat cannot use
        reader.discard()
        raise MalformedXml(str(error)) from error
    return reader.document


def _require_storable(document: JsonObject) -> None:
    if is_nested_too_deep(document):
        raise MalformedXml(format_depth_error())
    if expands_too_far(document, encode_large(document)):
        raise MalformedXml(EXPANDS_TOO_FAR)


def _parse(raw: bytes, reader: "_Reader") -> None:
    parser = _create_parser()
    parser.setContentHandler(reader)
    seen, seen_at = 0, 0
    for start in range(0, max(len(raw), 1), _PART_BYTES):
        parser.feed(raw[start : start + _PART_BYTES])
        if reader.events > seen:
            seen, seen_at = reader.events, start
        elif start - seen_at > MAX_TAG_BYTES:
            raise MalformedXml(f"a tag or comment is longer than {MAX_TAG_BYTES} bytes")
    parser.close()


class _Element:
    """An element that is being read: its members and text so far, and its path for messages."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.fields: JsonObject = {}
        self._repeated: dict[str, list[JsonValue]] = {}
        self._texts: list[str] = []
        self._run: list[str] = []

    def add(self, name: str, value: JsonValue) -> None:
        """A member; one that is there already becomes an array."""
        if (values := self._repeated.get(name)) is not None:
            values.append(value)
        elif name in self.fields:
            self.fields[name] = self._repeated[name] = [self.fields[name], value]
        else:
            self.fields[name] = value

    def add_text(self, text: str) -> None:
        self._run.append(text)

    def end_text(self) -> None:
        """A child begins or the element ends: what follows is another run of text."""
        if text := "".join(self._run).strip():
            self._texts.append(text)
        self._run.clear()

    def text(self) -> str:
        return " ".join(self._texts)


class _Reader(ContentHandler):
    """Builds the value from the events; ``document`` is complete when parsing has ended."""

    def __init__(self) -> None:
        super().__init__()
        self.document: JsonObject = {}
        self.events = 0
        self._names = set[str]()
        self._open: list[_Element] = []

    def discard(self) -> None:
        """Free what was read of a document that is refused."""
        take_apart([self.document, *(element.fields for element in self._open)])

    def startElement(self, name: str, attrs: AttributesImpl) -> None:  # noqa: N802 - SAX names it
        self.events += 1
        if len(self._open) == MAX_NESTING:
            raise MalformedXml(format_depth_error())
        self._names.add(name)
        self._names.update(attrs.getNames())
        if len(self._names) > MAX_NAMES:
            raise MalformedXml(f"there are more than {MAX_NAMES} different names of elements and attributes")
        element = _Element(self._enter(_strip_prefix(name)))
        for attribute, text in attrs.items():
            field = _strip_prefix(attribute)
            element.add(field, _read_scalar(text, member_path(element.path, field)))
        self._open.append(element)

    def characters(self, content: str) -> None:
        self.events += 1
        self._open[-1].add_text(content)

    def endElement(self, name: str) -> None:  # noqa: N802 - SAX names it
        self.events += 1
        element = self._open.pop()
        element.end_text()
        if self._open:
            self._open[-1].add(_strip_prefix(name), _build_value(element))
        else:
            self.document = _add_text(element, _TEXT if element.fields else _ROOT_TEXT)

    def _enter(self, name: str) -> str:
        """The path of a new element; that of the root, whose name is dropped, is empty."""
        if not self._open:
            return ""
        self._open[-1].end_text()
        return member_path(self._open[-1].path, name)


def _build_value(element: _Element) -> JsonValue:
    if element.fields or not element.text():
        return _add_text(element, _TEXT)
    return _read_scalar(element.text(), element.path)


def _add_text(element: _Element, field: str) -> JsonObject:
    if text := element.text():
        element.add(field, _read_scalar(text, member_path(element.path, field)))
    return element.fields


def _read_scalar(text: str, path: str) -> JsonValue:
    if text in _BOOLEANS:
        return _BOOLEANS[text]
    try:
        number = read_number(text)
    except UnusableNumber as refusal:
        raise MalformedXml(f"{refusal} at {path}") from None
    return text if number is None else number


def _strip_prefix(name: str) -> str:
    return name.rpartition(":")[2]
