"""Client credentials in an ``Authorization: Basic`` header (spec/auth-and-operations.md §6, §30)."""

import base64
import binascii
import re
from urllib.parse import unquote_plus

from msgspec import Struct

from statewright.settings import Secret

_SCHEME = "Basic "
_BROKEN_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})")


class Credentials(Struct, frozen=True):
    """Who somebody claims to be, and the proof."""

    client_id: str
    secret: Secret


def credentials(authorization: str | None) -> tuple[Credentials, ...]:
    """What the header may mean, the likeliest first; empty when it is absent or ill-formed.

    RFC 6749 §2.3.1 has both halves form-encoded, but many clients do not encode them. Where that makes a difference,
    both readings count.
    """
    if authorization is None or not authorization.startswith(_SCHEME):
        return ()
    try:
        text = base64.b64decode(authorization.removeprefix(_SCHEME), validate=True).decode()
    except (binascii.Error, ValueError):
        return ()
    client_id, colon, secret = text.partition(":")
    if not colon:
        return ()
    encoded, plain = (_form_decoded(client_id), _form_decoded(secret)), (client_id, secret)
    readings = dict.fromkeys((encoded, plain))
    return tuple(Credentials(name, Secret(key)) for name, key in readings if name is not None and key is not None)


def _form_decoded(text: str) -> str | None:
    """``None`` where the text is no form encoding."""
    if _BROKEN_ESCAPE.search(text):
        return None
    try:
        return unquote_plus(text, errors="strict")
    except UnicodeDecodeError:
        return None
