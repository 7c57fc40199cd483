"""Keys of others that the caller's tenant trusts (docs/reference/authentication.md#trusted-keys)."""

from typing import Final

import msgspec

from statewright.api.http.clients import JWT_ONLY
from statewright.api.http.identity_bodies import WindowBody, read_body, read_grace, read_window
from statewright.api.http.request import Request
from statewright.api.http.response import Response, encode_json
from statewright.api.http.router import Route
from statewright.api.http.signing_keys import EMPTY
from statewright.auth.trusted_keys import TrustedKey
from statewright.instants import to_rfc3339
from statewright.services.auth import trusted_keys
from statewright.services.auth.trusted_keys import NewTrustedKey


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
    found = await trusted_keys.list_trusted_keys(request.runtime, request.caller)
    return Response(encode_json([_describe_key(key) for key in found]))


async def register_trusted_key(request: Request) -> Response:
    """Trust a key, or another one under the same id."""
    trusted_keys.require_access(request.runtime, request.caller)
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
    key = await trusted_keys.register_trusted_key(request.runtime, request.caller, wanted)
    return Response(encode_json(_describe_key(key)))


async def delete_trusted_key(request: Request) -> Response:
    """Forget a key."""
    await trusted_keys.delete_trusted_key(request.runtime, request.caller, request.path_params["keyId"])
    return EMPTY


async def invalidate_trusted_key(request: Request) -> Response:
    """Trust a key no more."""
    trusted_keys.require_access(request.runtime, request.caller)
    grace_s = await read_grace(request)
    kid = request.path_params["keyId"]
    await trusted_keys.invalidate_trusted_key(request.runtime, request.caller, kid, grace_s)
    return EMPTY


async def reactivate_trusted_key(request: Request) -> Response:
    """Trust a key again, in a window."""
    trusted_keys.require_access(request.runtime, request.caller)
    window = await read_window(request)
    kid = request.path_params["keyId"]
    key = await trusted_keys.reactivate_trusted_key(request.runtime, request.caller, kid, window)
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
_TAG: Final = "Trusted keys"
_GATED: Final = ("FORBIDDEN", "FEATURE_DISABLED", "NOT_IMPLEMENTED")
_MARKERS: Final = (*JWT_ONLY, ("x-cyoda-feature", "trusted-key-registration"))

TRUSTED_KEYS: tuple[Route, ...] = (
    Route(
        method="GET",
        path=_KEYS,
        endpoint=list_trusted_keys,
        id="listTrustedKeys",
        tag=_TAG,
        summary="List the keys that the tenant trusts",
        reply="TrustedKeys",
        problems=_GATED,
        markers=_MARKERS,
    ),
    Route(
        method="POST",
        path=_KEYS,
        endpoint=register_trusted_key,
        recording="transaction",
        id="registerTrustedKey",
        tag=_TAG,
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
        markers=_MARKERS,
    ),
    Route(
        method="DELETE",
        path=_KEY,
        endpoint=delete_trusted_key,
        recording="transaction",
        id="deleteTrustedKey",
        tag=_TAG,
        summary="Forget a key",
        reply="",
        problems=("BAD_REQUEST", "TRUSTED_KEY_NOT_FOUND", *_GATED),
        markers=_MARKERS,
    ),
    Route(
        method="POST",
        path=f"{_KEY}/invalidate",
        endpoint=invalidate_trusted_key,
        recording="transaction",
        id="invalidateTrustedKey",
        tag=_TAG,
        summary="Trust a key no more",
        body="Grace",
        body_required=False,
        reply="",
        problems=("BAD_REQUEST", "TRUSTED_KEY_NOT_FOUND", *_GATED),
        markers=_MARKERS,
    ),
    Route(
        method="POST",
        path=f"{_KEY}/reactivate",
        endpoint=reactivate_trusted_key,
        recording="transaction",
        id="reactivateTrustedKey",
        tag=_TAG,
        summary="Trust a key again, in a new window",
        body="Validity",
        reply="TrustedKey",
        problems=("BAD_REQUEST", "TRUSTED_KEY_NOT_FOUND", *_GATED),
        markers=_MARKERS,
    ),
)
