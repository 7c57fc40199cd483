"""Parameters of a token request: from a form body, urlencoded or multipart, and from the query string."""

from email.message import Message
from email.parser import BytesParser
from urllib.parse import parse_qsl

LARGEST_BODY = 1 << 20
"""Bytes (spec/auth-and-operations.md §6)."""
_MOST_PARAMETERS = 100


class UnreadableForm(ValueError):
    """The body is too large, or not what its content type says."""


def parameters(*, content_type: str | None, body: bytes, query: str) -> dict[str, str]:
    """By name. The body wins over the query, and the first value over later ones. Raises :class:`UnreadableForm`.

    A body of any other content type has no parameters.
    """
    if len(body) > LARGEST_BODY:
        raise UnreadableForm("the body is too large")
    pairs = [*_body_pairs(content_type or "", body), *_pairs(query)]
    return dict(reversed(pairs))


def _body_pairs(content_type: str, body: bytes) -> list[tuple[str, str]]:
    media_type = content_type.partition(";")[0].strip().lower()
    if media_type == "application/x-www-form-urlencoded":
        try:
            return _pairs(body.decode())
        except UnicodeDecodeError as undecodable:
            raise UnreadableForm("the body is not UTF-8") from undecodable
    return _parts(content_type, body) if media_type == "multipart/form-data" else []


def _pairs(text: str) -> list[tuple[str, str]]:
    try:
        return parse_qsl(text, keep_blank_values=True, max_num_fields=_MOST_PARAMETERS)
    except ValueError as too_many:
        raise UnreadableForm("too many parameters") from too_many


def _parts(content_type: str, body: bytes) -> list[tuple[str, str]]:
    """The fields of RFC 7578, which are parts of a MIME message; files among them are passed over."""
    if "\r" in content_type or "\n" in content_type:
        raise UnreadableForm("the content type is malformed")
    message = BytesParser().parsebytes(
        b"Content-Type: " + content_type.encode("latin-1", "replace") + b"\r\n\r\n" + body
    )
    if not message.is_multipart():
        raise UnreadableForm("the body is not multipart")
    parts: list[Message] = message.get_payload()  # type: ignore[assignment]  # that is what a multipart payload is
    return [(_field_name(part), _field_text(part)) for part in parts if _field_name(part) and not part.get_filename()]


def _field_name(part: Message) -> str:
    name = part.get_param("name", header="content-disposition")
    return name if isinstance(name, str) else ""


def _field_text(part: Message) -> str:
    raw = part.get_payload(decode=True)
    if not isinstance(raw, bytes):
        raise UnreadableForm("a field is multipart itself")
    try:
        return raw.decode()
    except UnicodeDecodeError as undecodable:
        raise UnreadableForm("a field is not UTF-8") from undecodable
