"""XML documents as JSON values (spec/models.md §6, spec/entities.md §4.3).

``<order id="7"><line>a</line><line>b</line><note lang="en">hi</note></order>`` is
``{"id": 7, "line": ["a", "b"], "note": {"lang": "en", "_text": "hi"}}``.

Read as events, without namespace processing: prefixes are cut off, and ``xmlns`` attributes are fields like any other.
Entities declared by a document are refused; there is no use for them in data, and they are how XML attacks its readers.
"""

from collections.abc import Callable
from typing import Final, TypeAlias
from xml.sax import SAXParseException
from xml.sax.handler import ContentHandler
from xml.sax.xmlreader import AttributesImpl

from defusedxml import DefusedXmlException, sax

from statewright.jsonval.codec import NESTING_LIMIT, is_nested_too_deep
from statewright.jsonval.literals import UnusableNumber, read_number
from statewright.jsonval.paths import member_path
from statewright.jsonval.values import JsonObject, JsonValue

_Parse: TypeAlias = Callable[[bytes, ContentHandler], None]
_parse: Final[_Parse] = sax.parseString

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
    except SAXParseException as error:
        place = f"line {error.getLineNumber()}, column {error.getColumnNumber()}"
        raise MalformedXml(f"{error.getMessage()} ({place})") from error
    except DefusedXmlException as error:
        raise MalformedXml("declarations of entities and external references are not allowed") from error
    except (
        ValueError,
        LookupError,
    ) as error:  # what Python says of encodings that it does not know or expat cannot use
        raise MalformedXml(str(error)) from error
    document = reader.document
    if is_nested_too_deep(document):
        raise MalformedXml(_too_deep())
    return document


class _Element:
    """An element that is being read."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.fields: dict[str, list[JsonValue]] = {}
        self._texts: list[str] = []
        self._run: list[str] = []

    def add(self, name: str, value: JsonValue) -> None:
        self.fields.setdefault(name, []).append(value)

    def add_text(self, text: str) -> None:
        self._run.append(text)

    def end_text(self) -> None:
        """A child begins or the element ends: what follows is another run of text."""
        if text := "".join(self._run).strip():
            self._texts.append(text)
        self._run.clear()

    def text(self) -> str:
        return " ".join(self._texts)

    def object(self) -> JsonObject:
        return {name: values[0] if len(values) == 1 else list(values) for name, values in self.fields.items()}


class _Reader(ContentHandler):
    """Builds the value from the events; ``document`` is complete when parsing has ended."""

    def __init__(self) -> None:
        super().__init__()
        self.document: JsonObject = {}
        self._open: list[_Element] = []

    def startElement(self, name: str, attrs: AttributesImpl) -> None:  # noqa: N802 - SAX names it
        if len(self._open) == NESTING_LIMIT:
            raise MalformedXml(_too_deep())
        element = _Element(self._enter(_local(name)))
        for attribute, text in attrs.items():
            field = _local(attribute)
            element.add(field, _scalar(text, member_path(element.path, field)))
        self._open.append(element)

    def characters(self, content: str) -> None:
        self._open[-1].add_text(content)

    def endElement(self, name: str) -> None:  # noqa: N802 - SAX names it
        element = self._open.pop()
        element.end_text()
        if self._open:
            self._open[-1].add(_local(name), _value(element))
        else:
            self.document = _with_text(element, _TEXT if element.fields else _ROOT_TEXT)

    def _enter(self, name: str) -> str:
        """The path of a new element; that of the root, whose name is dropped, is empty."""
        if not self._open:
            return ""
        self._open[-1].end_text()
        return member_path(self._open[-1].path, name)


def _value(element: _Element) -> JsonValue:
    if element.fields or not element.text():
        return _with_text(element, _TEXT)
    return _scalar(element.text(), element.path)


def _with_text(element: _Element, field: str) -> JsonObject:
    if text := element.text():
        element.add(field, _scalar(text, member_path(element.path, field)))
    return element.object()


def _scalar(text: str, path: str) -> JsonValue:
    if text in _BOOLEANS:
        return _BOOLEANS[text]
    try:
        number = read_number(text)
    except UnusableNumber as refusal:
        raise MalformedXml(f"{refusal} at {path}") from None
    return text if number is None else number


def _local(name: str) -> str:
    return name.rpartition(":")[2]


def _too_deep() -> str:
    return f"nested more than {NESTING_LIMIT} levels deep"
