"""Key pairs that sign and verify tokens (docs/reference/authentication.md#keys).

Keys of others that the caller's tenant trusts (docs/reference/authentication.md#trusted-keys).
"""

import base64
from typing import Final

from statewright.api.http.clients import JWT_ONLY, GraceBody, WindowBody, read_body
from statewright.api.http.declaration import Subject
from statewright.api.http.request import Request
from statewright.api.http.response import Response, encode_json
from statewright.auth.keys import KeyPair, TrustedKey
from statewright.failures import MissingParameter
from statewright.instants import to_rfc3339
from statewright.operations.identity_answers import RegisteredKey, SigningKeyPair
from statewright.operations.records import QueryParameter
from statewright.services.auth import signing_keys, trusted_keys
from statewright.services.auth.signing_keys import NewKeyPair
from statewright.services.auth.trusted_keys import NewTrustedKey

EMPTY: Final = Response(b"", 200, "")


_PAIRS: Final = "/oauth/keys/keypair"
_PAIR: Final = f"{_PAIRS}/{{keyId}}"
_KEYS: Final = "/oauth/keys/trusted"
_KEY: Final = f"{_KEYS}/{{keyId}}"

_SIGNING: Final = Subject(
    tag="Signing keys", recording="transaction", problems=("FORBIDDEN", "NOT_IMPLEMENTED"), markers=JWT_ONLY
)
_TRUSTED: Final = Subject(
    tag="Trusted keys",
    recording="transaction",
    problems=("FORBIDDEN", "NOT_IMPLEMENTED"),
    markers=(*JWT_ONLY, ("x-cyoda-feature", "trusted-key-registration")),
)


class _IssueBody(WindowBody, frozen=True):
    algorithm: str | None = None
    audience: str | None = None
    invalidate_current: bool | None = None
    invalidate_grace_period_sec: int | None = None


class _RegisterBody(WindowBody, frozen=True):
    key_id: str = ""
    jwk: dict[str, object] | None = None
    audience: str | None = None
    issuers: list[str] | None = None
    invalidate_previous: bool | None = None
    invalidate_grace_period_sec: int | None = None


@_SIGNING.declare(
    f"POST {_PAIRS}",
    "issueJwtKeyPair",
    body="NewKeyPair",
    reply="KeyPair",
    problems=("BAD_REQUEST", "UNSUPPORTED_ALGORITHM"),
)
async def issue_key_pair(request: Request) -> Response:
    """Issue a key pair that signs or verifies tokens."""
    signing_keys.require_access(request.runtime.identity, request.caller)
    body = await read_body(request, _IssueBody)
    wanted = NewKeyPair(
        algorithm=body.algorithm,
        audience=body.audience,
        window=body.to_window(),
        ends_current=bool(body.invalidate_current),
        grace_s=body.invalidate_grace_period_sec,
    )
    return _show_pair(await signing_keys.issue_key_pair(request.runtime.identity, request.caller, wanted))


@_SIGNING.declare(
    f"GET {_PAIRS}/current",
    "getCurrentJwtKeyPair",
    query=(QueryParameter("audience", "string", "`client` or `human`; required"),),
    reply="KeyPair",
    problems=("BAD_REQUEST", "KEYPAIR_NOT_FOUND"),
)
async def get_current_key_pair(request: Request) -> Response:
    """The active key pair of an audience whose validity began last."""
    audience = request.query("audience")
    if audience is None:
        raise MissingParameter("audience")
    return _show_pair(await signing_keys.get_current_pair(request.runtime.identity, request.caller, audience))


@_SIGNING.declare(f"DELETE {_PAIR}", "deleteJwtKeyPair", problems=("KEYPAIR_NOT_FOUND",))
async def delete_key_pair(request: Request) -> Response:
    """Delete a key pair: what it has signed counts no more."""
    await signing_keys.delete_key_pair(request.runtime.identity, request.caller, request.path_params["keyId"])
    return EMPTY


@_SIGNING.declare(
    f"POST {_PAIR}/invalidate",
    "invalidateJwtKeyPair",
    body="Grace",
    body_required=False,
    problems=("BAD_REQUEST", "KEYPAIR_NOT_FOUND"),
)
async def invalidate_key_pair(request: Request) -> Response:
    """Have a key pair sign no more; what it has signed counts until a grace is over."""
    signing_keys.require_access(request.runtime.identity, request.caller)
    grace_s = (await read_body(request, GraceBody, absent=b"{}")).grace_period_sec
    await signing_keys.invalidate_key_pair(
        request.runtime.identity, request.caller, request.path_params["keyId"], grace_s
    )
    return EMPTY


@_SIGNING.declare(
    f"POST {_PAIR}/reactivate",
    "reactivateJwtKeyPair",
    body="Validity",
    reply="KeyPair",
    problems=("BAD_REQUEST", "KEYPAIR_NOT_FOUND"),
)
async def reactivate_key_pair(request: Request) -> Response:
    """Make a key pair active again in a new window."""
    signing_keys.require_access(request.runtime.identity, request.caller)
    window = (await read_body(request, WindowBody)).to_window()
    kid = request.path_params["keyId"]
    return _show_pair(await signing_keys.reactivate_key_pair(request.runtime.identity, request.caller, kid, window))


def _show_pair(pair: KeyPair) -> Response:
    shown = SigningKeyPair(
        active=pair.active,
        algorithm="RS256",
        key_id=pair.kid,
        public_key=base64.b64encode(pair.public_key).decode(),
        valid_from=to_rfc3339(pair.valid_from),
        valid_to=to_rfc3339(pair.valid_to),
    )
    return Response(encode_json(shown))


@_TRUSTED.declare(f"GET {_KEYS}", "listTrustedKeys", reply="TrustedKeys", problems=("FEATURE_DISABLED",))
async def list_trusted_keys(request: Request) -> Response:
    """List the keys that the tenant trusts."""
    found = await trusted_keys.list_trusted_keys(request.runtime.identity, request.caller)
    return Response(encode_json([*map(_show_key, found)]))


@_TRUSTED.declare(
    f"POST {_KEYS}",
    "registerTrustedKey",
    body="NewTrustedKey",
    reply="TrustedKey",
    problems=(
        "BAD_REQUEST",
        "UNSUPPORTED_KEY_TYPE",
        "TRUSTED_KEY_CAP_REACHED",
        "KEY_OWNED_BY_DIFFERENT_TENANT",
        "FEATURE_DISABLED",
    ),
)
async def register_trusted_key(request: Request) -> Response:
    """Trust a key, or another one under the same id."""
    trusted_keys.require_access(request.runtime.identity, request.caller)
    body = await read_body(request, _RegisterBody)
    wanted = NewTrustedKey(
        kid=body.key_id,
        jwk=body.jwk,
        audience=body.audience,
        issuers=body.issuers or (),
        window=body.to_window(),
        ends_previous=bool(body.invalidate_previous),
        grace_s=body.invalidate_grace_period_sec,
    )
    key = await trusted_keys.register_trusted_key(request.runtime.identity, request.caller, wanted)
    return Response(encode_json(_show_key(key)))


@_TRUSTED.declare(
    f"DELETE {_KEY}", "deleteTrustedKey", problems=("BAD_REQUEST", "TRUSTED_KEY_NOT_FOUND", "FEATURE_DISABLED")
)
async def delete_trusted_key(request: Request) -> Response:
    """Forget a key."""
    await trusted_keys.delete_trusted_key(request.runtime.identity, request.caller, request.path_params["keyId"])
    return EMPTY


@_TRUSTED.declare(
    f"POST {_KEY}/invalidate",
    "invalidateTrustedKey",
    body="Grace",
    body_required=False,
    problems=("BAD_REQUEST", "TRUSTED_KEY_NOT_FOUND", "FEATURE_DISABLED"),
)
async def invalidate_trusted_key(request: Request) -> Response:
    """Trust a key no more."""
    trusted_keys.require_access(request.runtime.identity, request.caller)
    grace_s = (await read_body(request, GraceBody, absent=b"{}")).grace_period_sec
    kid = request.path_params["keyId"]
    await trusted_keys.invalidate_trusted_key(request.runtime.identity, request.caller, kid, grace_s)
    return EMPTY


@_TRUSTED.declare(
    f"POST {_KEY}/reactivate",
    "reactivateTrustedKey",
    body="Validity",
    reply="TrustedKey",
    problems=("BAD_REQUEST", "TRUSTED_KEY_NOT_FOUND", "FEATURE_DISABLED"),
)
async def reactivate_trusted_key(request: Request) -> Response:
    """Trust a key again, in a new window."""
    trusted_keys.require_access(request.runtime.identity, request.caller)
    window = (await read_body(request, WindowBody)).to_window()
    kid = request.path_params["keyId"]
    key = await trusted_keys.reactivate_trusted_key(request.runtime.identity, request.caller, kid, window)
    return Response(encode_json(_show_key(key)))


def _show_key(key: TrustedKey) -> RegisteredKey:
    return RegisteredKey(
        key_id=key.kid,
        legal_entity_id=key.tenant,
        jwk=key.jwk,
        audience=key.audience,
        active=key.active,
        valid_from=to_rfc3339(key.valid_from),
        valid_to=to_rfc3339(key.valid_to),
        issuers=key.issuers,
    )
