"""What a token request says: the credentials of the client, and the parameters of its form
(docs/reference/authentication.md#token-endpoint).
"""

import base64
import binascii
import re
from collections.abc import Mapping
from email.message import Message
from email.parser import BytesParser
from typing import Final
from urllib.parse import parse_qsl, unquote_plus

from msgspec import Struct

from statewright.settings import Secret

MAX_BODY_BYTES: Final = 1 << 20
"""Largest body of a token request."""
_MAX_PARAMETERS: Final = 100
_SCHEME: Final = "Basic "
_FORM: Final = "application/x-www-form-urlencoded"
_BROKEN_ESCAPE: Final = re.compile(r"%(?![0-9A-Fa-f]{2})")


class Credentials(Struct, frozen=True):
    """A client id and its secret, not checked yet."""

    client_id: str
    secret: Secret


class UnreadableForm(ValueError):
    """The body is too large, or not what its content type says."""


def parse_basic(authorization: str) -> tuple[Credentials, ...]:
    """The credentials that the header may mean, the likeliest first; empty when it is malformed.

    RFC 6749 §2.3.1 has both halves form-encoded, but many clients do not encode them. Where that makes a difference,
    both readings count.
    """
    if not authorization.startswith(_SCHEME):
        return ()
    try:
        text = base64.b64decode(authorization.removeprefix(_SCHEME), validate=True).decode()
    except (binascii.Error, ValueError):
        return ()
    client_id, colon, secret = text.partition(":")
    if not colon:
        return ()
    encoded, plain = (_form_decode(client_id), _form_decode(secret)), (client_id, secret)
    readings = dict.fromkeys((encoded, plain))
    return tuple(Credentials(name, Secret(key)) for name, key in readings if name is not None and key is not None)


def read_posted(form: Mapping[str, str]) -> tuple[Credentials, ...]:
    """The credentials in the body of the request (``client_secret_post``); empty when there are none."""
    if "client_id" not in form or "client_secret" not in form:
        return ()
    return (Credentials(form["client_id"], Secret(form["client_secret"])),)


def _form_decode(text: str) -> str | None:
    """The text without its form encoding; ``None`` when it is not form-encoded."""
    if _BROKEN_ESCAPE.search(text):
        return None
    try:
        return unquote_plus(text, errors="strict")
    except UnicodeDecodeError:
        return None


def parse_form(content_type: str | None, body: bytes) -> dict[str, str]:
    """The parameters in a body, the first value of each. Raises :class:`UnreadableForm`."""
    if len(body) > MAX_BODY_BYTES:
        raise UnreadableForm("the body is too large")
    return dict(reversed(_parse_body(content_type or "", body)))


def parse_query(query: str) -> dict[str, str]:
    """The parameters in a query, the first value of each. Raises :class:`UnreadableForm`."""
    return dict(reversed(_parse_pairs(query)))


def _parse_body(content_type: str, body: bytes) -> list[tuple[str, str]]:
    media_type = content_type.partition(";")[0].strip().lower()
    if media_type == _FORM:
        try:
            return _parse_pairs(body.decode())
        except UnicodeDecodeError as undecodable:
            raise UnreadableForm("the body is not UTF-8") from undecodable
    if media_type == "multipart/form-data":
        return _parse_parts(content_type, body)
    if body.strip():
        raise UnreadableForm(f"the body is no form: its content type must be {_FORM}")
    return []


def _parse_pairs(text: str) -> list[tuple[str, str]]:
    try:
        return parse_qsl(text, keep_blank_values=True, max_num_fields=_MAX_PARAMETERS)
    except ValueError as too_many:
        raise UnreadableForm("too many parameters") from too_many


def _parse_parts(content_type: str, body: bytes) -> list[tuple[str, str]]:
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
