"""Identity providers by which people log in to the console (docs/console.md#login): asked for where they may be found,
and for the tokens of a code, as the policy for requests to providers permits.
"""

from base64 import b64encode
from collections.abc import Mapping
from time import monotonic
from typing import Any, Final
from urllib.parse import quote_plus, urlencode, urlsplit

import msgspec
from msgspec import Struct

from statewright import logs
from statewright.auth.providers import Provider
from statewright.auth.providers.documents import MAX_DISCOVERY_BYTES
from statewright.egress import Egress, HttpFailure, HttpRequest, HttpResponse
from statewright.jsonval.values import JsonObject
from statewright.services.auth.live_providers import LiveProviders
from statewright.settings import Secret

KEPT_S: Final = 300.0
"""How long a discovery document is used."""
MAX_TOKEN_REPLY_BYTES: Final = 256 * 1024
TIMEOUT_S: Final = 15.0
FORM: Final = "application/x-www-form-urlencoded"

_decode: Final = msgspec.json.Decoder(dict[str, Any]).decode  # Any: checked below

log = logs.logger(__name__)


class LoginOffer(Struct, frozen=True):
    """A provider that the page of the login names. ``label`` is the host of its discovery document."""

    id: str
    label: str


class LoginProvider(Struct, frozen=True, kw_only=True):
    """A provider as its discovery document describes it."""

    id: str
    tenant: str
    client_id: str
    issuer: str
    authorization_endpoint: str
    token_endpoint: str
    end_session_endpoint: str
    takes_basic: bool
    """Whether the secret of the client goes into a header, as providers take it unless they say otherwise."""


class ConsoleProviders:
    """The providers that have a client of the console. ``clients`` and ``secrets`` are by the id of the provider."""

    def __init__(
        self, live: LiveProviders, egress: Egress, clients: Mapping[str, str], secrets: Mapping[str, Secret]
    ) -> None:
        self._live = live
        self._egress = egress
        self._clients = clients
        self._secrets = secrets
        self._found: dict[str, tuple[float, Provider, LoginProvider]] = {}

    def list_offers(self) -> list[LoginOffer]:
        """Those that are registered and active now."""
        known = (self._live.find_provider(provider_id) for provider_id in self._clients)
        return [LoginOffer(each.id, urlsplit(each.uri).hostname or each.uri) for each in known if each is not None]

    async def discover(self, provider_id: str) -> LoginProvider | None:
        """The provider, from what it published some minutes ago at most; None where there is none or it fails."""
        provider = self._live.find_provider(provider_id) if provider_id in self._clients else None
        if provider is None:
            return None
        kept = self._found.get(provider_id)
        if kept is not None and kept[1] == provider and monotonic() - kept[0] < KEPT_S:
            return kept[2]
        found = await self._fetch(provider)
        if found is not None:
            self._found[provider_id] = (monotonic(), provider, found)
        return found

    async def request_tokens(self, provider_id: str, form: Mapping[str, str]) -> "JsonObject | None":
        """What the token endpoint answers to ``form``; None where it refuses or fails."""
        provider = await self.discover(provider_id)
        if provider is None:
            return None
        secret = self._secrets.get(provider_id)
        fields, headers = dict(form), [("Content-Type", FORM), ("Accept", "application/json")]
        if secret is not None and provider.takes_basic:
            pair = f"{quote_plus(provider.client_id)}:{quote_plus(secret.reveal())}"
            headers.append(("Authorization", f"Basic {b64encode(pair.encode()).decode()}"))
        else:
            fields["client_id"] = provider.client_id
            if secret is not None:
                fields["client_secret"] = secret.reveal()
        request = HttpRequest(
            url=provider.token_endpoint,
            method="POST",
            headers=tuple(headers),
            body=urlencode(fields).encode(),
            timeout_s=TIMEOUT_S,
            max_response_bytes=MAX_TOKEN_REPLY_BYTES,
        )
        return _read(await self._egress.send(request), provider_id, "token")

    async def _fetch(self, provider: Provider) -> LoginProvider | None:
        request = HttpRequest(
            url=provider.uri,
            headers=(("Accept", "application/json"),),
            timeout_s=TIMEOUT_S,
            max_response_bytes=MAX_DISCOVERY_BYTES,
        )
        document = _read(await self._egress.send(request), provider.id, "discovery")
        if document is None:
            return None
        issuer, authorization, token = (
            _get_text(document, name) for name in ("issuer", "authorization_endpoint", "token_endpoint")
        )
        is_pinned = not provider.issuers or issuer in provider.issuers
        policy = self._egress.policy
        is_usable = all(not isinstance(policy.check_url(url), HttpFailure) for url in (authorization, token))
        if not issuer or not is_pinned or not is_usable:
            log.warning("console_provider_unusable", provider=provider.id)
            return None
        end_session = _get_text(document, "end_session_endpoint")
        methods = document.get("token_endpoint_auth_methods_supported")
        return LoginProvider(
            id=provider.id,
            tenant=provider.tenant,
            client_id=self._clients[provider.id],
            issuer=issuer,
            authorization_endpoint=authorization,
            token_endpoint=token,
            end_session_endpoint="" if isinstance(policy.check_url(end_session), HttpFailure) else end_session,
            takes_basic=not isinstance(methods, list) or "client_secret_basic" in methods,
        )


def _read(response: HttpResponse | HttpFailure, provider_id: str, what: str) -> "JsonObject | None":
    if isinstance(response, HttpFailure) or response.status != 200:
        reason = response.reason if isinstance(response, HttpFailure) else f"status {response.status}"
        log.warning("console_provider_failed", provider=provider_id, what=what, reason=reason)
        return None
    try:
        return _decode(response.body)
    except (ValueError, RecursionError, msgspec.MsgspecError):
        log.warning("console_provider_failed", provider=provider_id, what=what, reason="no JSON object")
        return None


def _get_text(document: JsonObject, name: str) -> str:
    value = document.get(name)
    return value if isinstance(value, str) else ""
