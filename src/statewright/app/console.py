"""The console of a process: whom it asks for logins, by the mode of the settings (docs/console.md#login)."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

from statewright.api.http.asgi import Application
from statewright.api.http.help.topics import read_version
from statewright.auth.keys import Sealer
from statewright.console.application import Console, Observe
from statewright.console.client import AsgiApi
from statewright.console.frame import FrameConfig
from statewright.console.login import Login
from statewright.console.login_store import CookieRules, Grant, SessionLimits, StoredLogins
from statewright.console.session import MockSessions, SessionsUnavailable
from statewright.failures import StorageUnavailable
from statewright.ids import system_clock
from statewright.instants import to_us
from statewright.services.auth.providers import ConsoleProviders
from statewright.services.runtime import Runtime
from statewright.settings import Secret, Settings
from statewright.settings.kinds import read_pairs
from statewright.storage.auth.console_sessions import StoredConsoleSessions
from statewright.storage.pool import DatabaseConnection, Pool


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
        StoredConsoleSessions(ConsolePool(runtime.core.pool)),
        Sealer(secret, "tokens of console sessions"),
        SessionLimits(idle=to_us(settings.console_session_idle), longest=to_us(settings.console_session_max)),
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


class ConsolePool:
    """The database as the console knows it: where logins cannot be looked up, it raises ``SessionsUnavailable``."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[DatabaseConnection]:
        """A connection for the length of an ``async with`` block."""
        try:
            async with self._pool.connection() as connection:
                yield connection
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
