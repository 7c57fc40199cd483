"""Combinations of settings that are refused, and those that are doubtful.

Sources: docs/reference/authentication.md#clients, docs/reference/service.md#what-stops-the-start; decisions A2 and A3.
"""

from collections.abc import Callable, Iterator
from typing import Final

from statewright.settings.kinds import is_loopback
from statewright.settings.reading import SettingsError
from statewright.settings.table import Table

_MAX_SECRET_BYTES: Final = 72
"""Bytes of a client secret that bcrypt looks at."""
_MIN_HMAC_BYTES: Final = 32
"""Bytes; a shorter key is weaker than the SHA-256 it keys."""


def enforce(settings: Table) -> None:
    """Raises :class:`SettingsError` for the first rule on combinations of settings that is broken."""
    for rule in _RULES:
        rule(settings)


def find_doubts(settings: Table) -> Iterator[str]:
    """Sentences for the log about settings that are valid, but may not do what their author expects."""
    for doubt in _DOUBTS:
        yield from doubt(settings)


def refuse_missing_url(settings: Table) -> None:
    if settings.storage == "postgres" and settings.postgres_url is None:
        missing = settings.name_variable("postgres_url", beside="storage_backend")
        raise SettingsError(missing, f"must be set because {settings.name_variable('storage_backend')} is postgres")


def _refuse_missing_key(settings: Table) -> None:
    if settings.require_jwt and settings.iam_mode != "jwt":
        demand = settings.name_variable("require_jwt")
        raise SettingsError(
            settings.name_variable("iam_mode", beside="require_jwt"), f"must be jwt because {demand} is true"
        )
    if settings.iam_mode == "jwt" and settings.jwt_signing_key is None:
        missing = settings.name_variable("jwt_signing_key", beside="iam_mode")
        raise SettingsError(missing, f"must be set because {settings.name_variable('iam_mode')} is jwt")


def _refuse_public_mock(settings: Table) -> None:
    public = not is_loopback(settings.host)
    if settings.iam_mode == "mock" and public and not settings.allow_mock_on_public_address:
        raise SettingsError(
            settings.name_variable("host"),
            f"{settings.host} can be reached from other machines, and mock authentication lets everybody in; use"
            f" {settings.name_variable('iam_mode')}=jwt, or set"
            f" {settings.name_variable('allow_mock_on_public_address')}=true",
        )


def _refuse_half_a_client(settings: Table) -> None:
    if settings.iam_mode != "jwt":
        return
    pair = {
        "bootstrap_client_id": bool(settings.bootstrap_client_id),
        "bootstrap_client_secret": settings.bootstrap_client_secret is not None,
    }
    given, missing = sorted(pair, key=lambda name: not pair[name])
    if pair[given] and not pair[missing]:
        variable = settings.name_variable(missing, beside=given)
        raise SettingsError(variable, f"must be set because {settings.name_variable(given)} is")
    if settings.bootstrap_client_secret and len(settings.bootstrap_client_secret.reveal().encode()) > _MAX_SECRET_BYTES:
        raise SettingsError(
            settings.name_variable("bootstrap_client_secret"), f"the value is longer than {_MAX_SECRET_BYTES} bytes"
        )
    if pair[given] and not settings.bootstrap_tenant_id:
        raise SettingsError(settings.name_variable("bootstrap_tenant_id"), "must not be empty")


def _refuse_open_metrics(settings: Table) -> None:
    if settings.metrics_require_auth and settings.metrics_bearer is None:
        missing = settings.name_variable("metrics_bearer", beside="metrics_require_auth")
        raise SettingsError(missing, f"must be set because {settings.name_variable('metrics_require_auth')} is true")


def _refuse_clashing_numbers(settings: Table) -> None:
    if settings.http_port == settings.grpc_port != 0:
        raise SettingsError(
            settings.name_variable("grpc_port"), f"is the same as {settings.name_variable('http_port')}"
        )
    if settings.keepalive_timeout <= settings.keepalive_interval:
        interval = settings.name_variable("keepalive_interval")
        raise SettingsError(settings.name_variable("keepalive_timeout"), f"must be longer than {interval}")


def _refuse_little_memory(settings: Table) -> None:
    if settings.grpc_memory_bytes < 8 * settings.grpc_max_message_bytes:
        longest = settings.name_variable("grpc_max_message_bytes")
        raise SettingsError(settings.name_variable("grpc_memory_bytes"), f"must be at least eight times {longest}")


def _refuse_half_of_tls(settings: Table) -> None:
    given = [name for name in ("tls_cert", "tls_key", "tls_client_ca") if getattr(settings, name) is not None]
    for needed in ("tls_cert", "tls_key"):
        if given and needed not in given:
            raise SettingsError(
                settings.name_variable(needed, beside=given[0]),
                f"must be set because {settings.name_variable(given[0])} is",
            )


def _refuse_unreachable_node(settings: Table) -> None:
    if settings.node_bind_address in ("0.0.0.0", "::") and not settings.node_host:  # noqa: S104 - compared, not bound
        bound = settings.name_variable("node_bind_address")
        raise SettingsError(settings.name_variable("node_host"), f"must be set because {bound} is every address")


def _doubt_storage(settings: Table) -> Iterator[str]:
    if settings.storage_backend in ("memory", "sqlite"):
        variable = settings.name_variable("storage_backend")
        yield f"{variable} is {settings.storage_backend}: the embedded PostgreSQL server is used in its place"
    if settings.storage == "embedded" and settings.postgres_url is not None:
        unused, reason = settings.name_variable("postgres_url"), settings.name_variable("storage_backend")
        yield f"{unused} is not used because of {reason}"


def _doubt_authentication(settings: Table) -> Iterator[str]:
    if settings.hmac_secret is not None and len(settings.hmac_secret.key_bytes()) < _MIN_HMAC_BYTES:
        yield f"{settings.name_variable('hmac_secret')} is shorter than {_MIN_HMAC_BYTES} bytes"
    if settings.iam_mode == "mock":
        if not settings.iam_mock_roles:
            yield f"{settings.name_variable('iam_mock_roles')} names no role; the default roles stay"
    elif settings.iam_keypair_default_validity_days < 30:
        yield f"{settings.name_variable('iam_keypair_default_validity_days')} is under 30 days: no tokens after that"


def _doubt_openness(settings: Table) -> Iterator[str]:
    if settings.steps_open_tenant and settings.iam_mode == "jwt":
        variable = settings.name_variable("steps_open_tenant")
        yield f"{variable} is {settings.steps_open_tenant}: whoever reaches this service may run steps in that tenant"


def _doubt_node_channel(settings: Table) -> Iterator[str]:
    if settings.tls is not None and not is_loopback(settings.node_bind_address):
        yield (
            f"{settings.name_variable('node_bind_address')} is {settings.node_bind_address}: the channel between nodes"
            " is not encrypted, and needs a network of its own"
        )


def _doubt_origins(settings: Table) -> Iterator[str]:
    if settings.cors_enabled and settings.cors_allowed_origins == ("*",):
        yield f"{settings.name_variable('cors_allowed_origins')} is *: every web site may call this service"


_RULES: tuple[Callable[[Table], None], ...] = (
    _refuse_missing_key,
    _refuse_half_a_client,
    _refuse_public_mock,
    _refuse_open_metrics,
    refuse_missing_url,
    _refuse_clashing_numbers,
    _refuse_unreachable_node,
    _refuse_half_of_tls,
    _refuse_little_memory,
)
_DOUBTS: tuple[Callable[[Table], Iterator[str]], ...] = (
    _doubt_storage,
    _doubt_authentication,
    _doubt_openness,
    _doubt_node_channel,
    _doubt_origins,
)
