"""The console of a process: whom it asks for logins, by the mode of the settings (docs/console.md#login)."""

from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta

from statewright.api.http.asgi import Application
from statewright.api.http.help.topics import read_version
from statewright.auth.keys import Sealer
from statewright.console.application import Console, Observe
from statewright.console.client import AsgiApi
from statewright.console.frame import FrameConfig
from statewright.console.login import Login
from statewright.console.logins import CookieRules, Grant, SessionLimits, StoredLogins
from statewright.console.session import MockSessions, SessionsUnavailable
from statewright.failures import StorageUnavailable
from statewright.ids import system_clock
from statewright.services.auth.providers import ConsoleProviders
from statewright.services.runtime import Runtime
from statewright.settings import Secret, Settings
from statewright.settings.kinds import read_pairs
from statewright.storage.auth.console_sessions import ConsoleSessionRow, StoredConsoleSessions


def build_console(settings: Settings, runtime: Runtime, application: Application, observe: Observe) -> Console:
    """The console, which calls ``application``; ``observe`` is told of each answer."""
    config = FrameConfig(
        context_path=settings.context_path,
        is_mock=settings.iam_mode == "mock",
        address=f"{settings.host}:{settings.http_port}",
        version=read_version(),
    )
    api = AsgiApi(application, settings.context_path)
    identity = runtime.identity.identity
    if identity is None:
        return Console(api, MockSessions(), config, observe=observe)
    clients = dict(settings.console_oidc_clients)
    providers = ConsoleProviders(identity.live_providers, identity.discovery, clients, _read_secrets(settings))
    secret = _find_secret(settings)

    async def renew(grant: Grant) -> Grant | None:
        return await login.renew(grant)

    logins = StoredLogins(
        ConsoleSessions(StoredConsoleSessions(runtime.core.pool)),
        Sealer(secret, "tokens of console sessions"),
        SessionLimits(idle=_to_us(settings.console_session_idle), longest=_to_us(settings.console_session_max)),
        CookieRules(public_url=settings.public_url, has_tls=settings.tls is not None),
        renew,
        system_clock,
    )
    login = Login(
        api,
        logins,
        providers,
        Sealer(secret, "console logins under way"),
        public_url=settings.public_url,
        read_clock=system_clock,
    )
    return Console(api, logins, config, observe=observe, login=login)


class ConsoleSessions:
    """Stored logins as the console asks for them."""

    def __init__(self, stored: StoredConsoleSessions) -> None:
        self._stored = stored

    async def find(self, digest: bytes) -> ConsoleSessionRow | None:
        """Raises ``SessionsUnavailable``, as everything here."""
        async with _translate():
            return await self._stored.find(digest)
        raise AssertionError

    async def find_all(self, digests: Collection[bytes]) -> Sequence[ConsoleSessionRow]:
        """Those of some logins that there are."""
        async with _translate():
            return await self._stored.find_all(digests)
        raise AssertionError

    async def sweep(self, now: int) -> bool:
        """Remove what has ended; whether there are others."""
        async with _translate():
            return await self._stored.sweep(now)
        raise AssertionError

    async def add(
        self, *, tenant: str, digest: bytes, principal: str, sealed: bytes, token_ends_at: int, now: int, ends_at: int
    ) -> None:
        """Keep a new login."""
        async with _translate():
            await self._stored.add(
                tenant=tenant,
                digest=digest,
                principal=principal,
                sealed=sealed,
                token_ends_at=token_ends_at,
                now=now,
                ends_at=ends_at,
            )

    async def touch(self, tenant: str, digest: bytes, now: int) -> None:
        """Somebody has just used it."""
        async with _translate():
            await self._stored.touch(tenant, digest, now)

    async def remove(self, tenant: str, digest: bytes) -> None:
        """End a login."""
        async with _translate():
            await self._stored.remove(tenant, digest)

    async def claim_renewal(self, tenant: str, digest: bytes, now: int, until: int) -> bool:
        """Whether it is the caller who asks for a new token."""
        async with _translate():
            return await self._stored.claim_renewal(tenant, digest, now, until)
        raise AssertionError

    async def renew(self, tenant: str, digest: bytes, sealed: bytes, token_ends_at: int) -> None:
        """Keep another token."""
        async with _translate():
            await self._stored.renew(tenant, digest, sealed, token_ends_at)


@asynccontextmanager
async def _translate() -> AsyncIterator[None]:
    try:
        yield
    except StorageUnavailable as unavailable:
        raise SessionsUnavailable from unavailable


def _find_secret(settings: Settings) -> bytes:
    """A secret that all nodes have: that of the channel between them, else the one that they sign tokens with."""
    if settings.hmac_secret is not None:
        return settings.hmac_secret.key_bytes()
    assert settings.jwt_signing_key is not None  # noqa: S101 - jwt mode has it
    return settings.jwt_signing_key.reveal().encode()


def _read_secrets(settings: Settings) -> Mapping[str, Secret]:
    stored = settings.console_oidc_secrets
    return {} if stored is None else {name: Secret(text) for name, text in read_pairs(stored.reveal())}


def _to_us(span: timedelta) -> int:
    return span // timedelta(microseconds=1)
