"""Names of requests: what a client calls its request, or a name of ours (docs/reference/service.md#request-ids).

They are told in ``X-Request-ID`` of every response and stand in every line that is logged for the request, so that a
client, a proxy and the log of this service can speak of the same one.
"""

import re
import secrets
from typing import Final

HEADER: Final = b"x-request-id"

_SANE: Final = re.compile(rb"[A-Za-z0-9][A-Za-z0-9._~:/+=@-]{0,127}")
"""What may be taken as it is: it goes into headers and logs."""


def choose_request_id(given: bytes | None) -> bytes:
    """The id that the client has given, if that is one; else a new one, at random: a number would tell every client
    how many requests the others make.
    """
    if given is not None and _SANE.fullmatch(given):
        return given
    return secrets.token_hex(12).encode()
