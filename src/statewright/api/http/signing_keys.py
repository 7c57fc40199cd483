"""Key pairs that sign and verify tokens (docs/reference/authentication.md#keys)."""

import base64
from typing import Final

import msgspec

from statewright.api.http.clients import JWT_ONLY
from statewright.api.http.identity_bodies import WindowBody, read_body, read_grace, read_window
from statewright.api.http.request import Request
from statewright.api.http.response import Response, encode_json
from statewright.api.http.router import Query, Route
from statewright.auth.key_pairs import KeyPair
from statewright.failures import MissingParameter
from statewright.instants import to_rfc3339
from statewright.services.auth import signing_keys
from statewright.services.auth.signing_keys import NewKeyPair

EMPTY: Final = Response(b"", 200, "")


class _IssueBody(WindowBody, frozen=True):
    algorithm: str | None = None
    audience: str | None = None
    invalidateCurrent: bool | None = None  # noqa: N815 - the names of the dialect
    invalidateGracePeriodSec: int | None = None  # noqa: N815


_decode_issue = msgspec.json.Decoder(_IssueBody).decode


async def issue_key_pair(request: Request) -> Response:
    """Issue a pair; of its private half nothing is shown."""
    signing_keys.require_access(request.runtime, request.caller)
    body = await read_body(request, _decode_issue)
    wanted = NewKeyPair(
        algorithm=body.algorithm,
        audience=body.audience,
        window=body.to_window(),
        ends_current=bool(body.invalidateCurrent),
        grace_s=body.invalidateGracePeriodSec,
    )
    return _show_pair(await signing_keys.issue_key_pair(request.runtime, request.caller, wanted))


async def get_current_key_pair(request: Request) -> Response:
    """The active pair of an audience whose validity began last."""
    audience = request.query("audience")
    if audience is None:
        raise MissingParameter("audience")
    return _show_pair(await signing_keys.get_current_pair(request.runtime, request.caller, audience))


async def delete_key_pair(request: Request) -> Response:
    """Delete a pair at once."""
    await signing_keys.delete_key_pair(request.runtime, request.caller, request.path_params["keyId"])
    return EMPTY


async def invalidate_key_pair(request: Request) -> Response:
    """Have a pair sign no more, and end when a grace is over."""
    signing_keys.require_access(request.runtime, request.caller)
    grace_s = await read_grace(request)
    await signing_keys.invalidate_key_pair(request.runtime, request.caller, request.path_params["keyId"], grace_s)
    return EMPTY


async def reactivate_key_pair(request: Request) -> Response:
    """Make a pair active again in a window."""
    signing_keys.require_access(request.runtime, request.caller)
    window = await read_window(request)
    kid = request.path_params["keyId"]
    return _show_pair(await signing_keys.reactivate_key_pair(request.runtime, request.caller, kid, window))


def _show_pair(pair: KeyPair) -> Response:
    return Response(
        encode_json(
            {
                "active": pair.active,
                "algorithm": "RS256",
                "keyId": pair.kid,
                "publicKey": base64.b64encode(pair.public_key).decode(),
                "validFrom": to_rfc3339(pair.valid_from),
                "validTo": to_rfc3339(pair.valid_to),
            }
        )
    )


_PAIRS: Final = "/oauth/keys/keypair"
_PAIR: Final = f"{_PAIRS}/{{keyId}}"
_TAG: Final = "Signing keys"

SIGNING_KEYS: tuple[Route, ...] = (
    Route(
        method="POST",
        path=_PAIRS,
        endpoint=issue_key_pair,
        recording="transaction",
        id="issueJwtKeyPair",
        tag=_TAG,
        summary="Issue a key pair that signs or verifies tokens",
        body="NewKeyPair",
        reply="KeyPair",
        problems=("BAD_REQUEST", "UNSUPPORTED_ALGORITHM", "FORBIDDEN", "NOT_IMPLEMENTED"),
        markers=JWT_ONLY,
    ),
    Route(
        method="GET",
        path=f"{_PAIRS}/current",
        endpoint=get_current_key_pair,
        id="getCurrentJwtKeyPair",
        tag=_TAG,
        summary="The active key pair of an audience whose validity began last",
        query=(Query("audience", "string", "`client` or `human`; required"),),
        reply="KeyPair",
        problems=("BAD_REQUEST", "FORBIDDEN", "KEYPAIR_NOT_FOUND", "NOT_IMPLEMENTED"),
        markers=JWT_ONLY,
    ),
    Route(
        method="DELETE",
        path=_PAIR,
        endpoint=delete_key_pair,
        recording="transaction",
        id="deleteJwtKeyPair",
        tag=_TAG,
        summary="Delete a key pair: what it has signed counts no more",
        reply="",
        problems=("FORBIDDEN", "KEYPAIR_NOT_FOUND", "NOT_IMPLEMENTED"),
        markers=JWT_ONLY,
    ),
    Route(
        method="POST",
        path=f"{_PAIR}/invalidate",
        endpoint=invalidate_key_pair,
        recording="transaction",
        id="invalidateJwtKeyPair",
        tag=_TAG,
        summary="Have a key pair sign no more; what it has signed counts until a grace is over",
        body="Grace",
        body_required=False,
        reply="",
        problems=("BAD_REQUEST", "FORBIDDEN", "KEYPAIR_NOT_FOUND", "NOT_IMPLEMENTED"),
        markers=JWT_ONLY,
    ),
    Route(
        method="POST",
        path=f"{_PAIR}/reactivate",
        endpoint=reactivate_key_pair,
        recording="transaction",
        id="reactivateJwtKeyPair",
        tag=_TAG,
        summary="Make a key pair active again in a new window",
        body="Validity",
        reply="KeyPair",
        problems=("BAD_REQUEST", "FORBIDDEN", "KEYPAIR_NOT_FOUND", "NOT_IMPLEMENTED"),
        markers=JWT_ONLY,
    ),
)
