"""Key pairs that sign and verify tokens (docs/reference/authentication.md#keys).

Keys of others that the caller's tenant trusts (docs/reference/authentication.md#trusted-keys).
"""

import base64
from functools import partial
from typing import Final

import msgspec

from statewright.api.http.clients import JWT_ONLY, WindowBody, read_body, read_grace, read_window
from statewright.api.http.request import Request
from statewright.api.http.response import Response, encode_json
from statewright.api.http.router import Route
from statewright.auth.keys import KeyPair, TrustedKey
from statewright.failures import MissingParameter
from statewright.instants import to_rfc3339
from statewright.operations.records import QueryParameter
from statewright.services.auth import signing_keys, trusted_keys
from statewright.services.auth.signing_keys import NewKeyPair
from statewright.services.auth.trusted_keys import NewTrustedKey

EMPTY: Final = Response(b"", 200, "")


class _IssueBody(WindowBody, frozen=True):
    algorithm: str | None = None
    audience: str | None = None
    invalidateCurrent: bool | None = None  # noqa: N815 - the names of the dialect
    invalidateGracePeriodSec: int | None = None  # noqa: N815


_decode_issue = msgspec.json.Decoder(_IssueBody).decode


async def issue_key_pair(request: Request) -> Response:
    """Issue a pair; of its private half nothing is shown."""
    signing_keys.require_access(request.runtime.identity, request.caller)
    body = await read_body(request, _decode_issue)
    wanted = NewKeyPair(
        algorithm=body.algorithm,
        audience=body.audience,
        window=body.to_window(),
        ends_current=bool(body.invalidateCurrent),
        grace_s=body.invalidateGracePeriodSec,
    )
    return _show_pair(await signing_keys.issue_key_pair(request.runtime.identity, request.caller, wanted))


async def get_current_key_pair(request: Request) -> Response:
    """The active pair of an audience whose validity began last."""
    audience = request.query("audience")
    if audience is None:
        raise MissingParameter("audience")
    return _show_pair(await signing_keys.get_current_pair(request.runtime.identity, request.caller, audience))


async def delete_key_pair(request: Request) -> Response:
    """Delete a pair at once."""
    await signing_keys.delete_key_pair(request.runtime.identity, request.caller, request.path_params["keyId"])
    return EMPTY


async def invalidate_key_pair(request: Request) -> Response:
    """Have a pair sign no more, and end when a grace is over."""
    signing_keys.require_access(request.runtime.identity, request.caller)
    grace_s = await read_grace(request)
    await signing_keys.invalidate_key_pair(
        request.runtime.identity, request.caller, request.path_params["keyId"], grace_s
    )
    return EMPTY


async def reactivate_key_pair(request: Request) -> Response:
    """Make a pair active again in a window."""
    signing_keys.require_access(request.runtime.identity, request.caller)
    window = await read_window(request)
    kid = request.path_params["keyId"]
    return _show_pair(await signing_keys.reactivate_key_pair(request.runtime.identity, request.caller, kid, window))


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
_pair_read = partial(Route, tag="Signing keys", markers=JWT_ONLY)
_pair_change = partial(_pair_read, recording="transaction")

SIGNING_KEYS: tuple[Route, ...] = (
    _pair_change(
        method="POST",
        path=_PAIRS,
        endpoint=issue_key_pair,
        id="issueJwtKeyPair",
        summary="Issue a key pair that signs or verifies tokens",
        body="NewKeyPair",
        reply="KeyPair",
        problems=("BAD_REQUEST", "UNSUPPORTED_ALGORITHM", "FORBIDDEN", "NOT_IMPLEMENTED"),
    ),
    _pair_read(
        method="GET",
        path=f"{_PAIRS}/current",
        endpoint=get_current_key_pair,
        id="getCurrentJwtKeyPair",
        summary="The active key pair of an audience whose validity began last",
        query=(QueryParameter("audience", "string", "`client` or `human`; required"),),
        reply="KeyPair",
        problems=("BAD_REQUEST", "FORBIDDEN", "KEYPAIR_NOT_FOUND", "NOT_IMPLEMENTED"),
    ),
    _pair_change(
        method="DELETE",
        path=_PAIR,
        endpoint=delete_key_pair,
        id="deleteJwtKeyPair",
        summary="Delete a key pair: what it has signed counts no more",
        reply="",
        problems=("FORBIDDEN", "KEYPAIR_NOT_FOUND", "NOT_IMPLEMENTED"),
    ),
    _pair_change(
        method="POST",
        path=f"{_PAIR}/invalidate",
        endpoint=invalidate_key_pair,
        id="invalidateJwtKeyPair",
        summary="Have a key pair sign no more; what it has signed counts until a grace is over",
        body="Grace",
        body_required=False,
        reply="",
        problems=("BAD_REQUEST", "FORBIDDEN", "KEYPAIR_NOT_FOUND", "NOT_IMPLEMENTED"),
    ),
    _pair_change(
        method="POST",
        path=f"{_PAIR}/reactivate",
        endpoint=reactivate_key_pair,
        id="reactivateJwtKeyPair",
        summary="Make a key pair active again in a new window",
        body="Validity",
        reply="KeyPair",
        problems=("BAD_REQUEST", "FORBIDDEN", "KEYPAIR_NOT_FOUND", "NOT_IMPLEMENTED"),
    ),
)


class _RegisterBody(WindowBody, frozen=True):
    keyId: str = ""  # noqa: N815 - the names of the dialect
    jwk: dict[str, object] | None = None
    audience: str | None = None
    issuers: list[str] | None = None
    invalidatePrevious: bool | None = None  # noqa: N815
    invalidateGracePeriodSec: int | None = None  # noqa: N815


_decode_registration: Final = msgspec.json.Decoder(_RegisterBody).decode


async def list_trusted_keys(request: Request) -> Response:
    """The keys of the tenant."""
    found = await trusted_keys.list_trusted_keys(request.runtime.identity, request.caller)
    return Response(encode_json([_describe_key(key) for key in found]))


async def register_trusted_key(request: Request) -> Response:
    """Trust a key, or another one under the same id."""
    trusted_keys.require_access(request.runtime.identity, request.caller)
    body = await read_body(request, _decode_registration)
    wanted = NewTrustedKey(
        kid=body.keyId,
        jwk=body.jwk,
        audience=body.audience,
        issuers=body.issuers or (),
        window=body.to_window(),
        ends_previous=bool(body.invalidatePrevious),
        grace_s=body.invalidateGracePeriodSec,
    )
    key = await trusted_keys.register_trusted_key(request.runtime.identity, request.caller, wanted)
    return Response(encode_json(_describe_key(key)))


async def delete_trusted_key(request: Request) -> Response:
    """Forget a key."""
    await trusted_keys.delete_trusted_key(request.runtime.identity, request.caller, request.path_params["keyId"])
    return EMPTY


async def invalidate_trusted_key(request: Request) -> Response:
    """Trust a key no more."""
    trusted_keys.require_access(request.runtime.identity, request.caller)
    grace_s = await read_grace(request)
    kid = request.path_params["keyId"]
    await trusted_keys.invalidate_trusted_key(request.runtime.identity, request.caller, kid, grace_s)
    return EMPTY


async def reactivate_trusted_key(request: Request) -> Response:
    """Trust a key again, in a window."""
    trusted_keys.require_access(request.runtime.identity, request.caller)
    window = await read_window(request)
    kid = request.path_params["keyId"]
    key = await trusted_keys.reactivate_trusted_key(request.runtime.identity, request.caller, kid, window)
    return Response(encode_json(_describe_key(key)))


def _describe_key(key: TrustedKey) -> dict[str, object]:
    shown: dict[str, object] = {
        "keyId": key.kid,
        "legalEntityId": key.tenant,
        "jwk": key.jwk,
        "audience": key.audience,
        "active": key.active,
        "validFrom": to_rfc3339(key.valid_from),
        "validTo": to_rfc3339(key.valid_to),
    }
    return shown | ({"issuers": key.issuers} if key.issuers else {})


_KEYS: Final = "/oauth/keys/trusted"
_KEY: Final = f"{_KEYS}/{{keyId}}"
_GATED: Final = ("FORBIDDEN", "FEATURE_DISABLED", "NOT_IMPLEMENTED")
_MARKERS: Final = (*JWT_ONLY, ("x-cyoda-feature", "trusted-key-registration"))

_key_read = partial(Route, tag="Trusted keys", markers=_MARKERS)
_key_change = partial(_key_read, recording="transaction")

TRUSTED_KEYS: tuple[Route, ...] = (
    _key_read(
        method="GET",
        path=_KEYS,
        endpoint=list_trusted_keys,
        id="listTrustedKeys",
        summary="List the keys that the tenant trusts",
        reply="TrustedKeys",
        problems=_GATED,
    ),
    _key_change(
        method="POST",
        path=_KEYS,
        endpoint=register_trusted_key,
        id="registerTrustedKey",
        summary="Trust a key, or another one under the same id",
        body="NewTrustedKey",
        reply="TrustedKey",
        problems=(
            "BAD_REQUEST",
            "UNSUPPORTED_KEY_TYPE",
            "TRUSTED_KEY_CAP_REACHED",
            "KEY_OWNED_BY_DIFFERENT_TENANT",
            *_GATED,
        ),
    ),
    _key_change(
        method="DELETE",
        path=_KEY,
        endpoint=delete_trusted_key,
        id="deleteTrustedKey",
        summary="Forget a key",
        reply="",
        problems=("BAD_REQUEST", "TRUSTED_KEY_NOT_FOUND", *_GATED),
    ),
    _key_change(
        method="POST",
        path=f"{_KEY}/invalidate",
        endpoint=invalidate_trusted_key,
        id="invalidateTrustedKey",
        summary="Trust a key no more",
        body="Grace",
        body_required=False,
        reply="",
        problems=("BAD_REQUEST", "TRUSTED_KEY_NOT_FOUND", *_GATED),
    ),
    _key_change(
        method="POST",
        path=f"{_KEY}/reactivate",
        endpoint=reactivate_trusted_key,
        id="reactivateTrustedKey",
        summary="Trust a key again, in a new window",
        body="Validity",
        reply="TrustedKey",
        problems=("BAD_REQUEST", "TRUSTED_KEY_NOT_FOUND", *_GATED),
    ),
)
