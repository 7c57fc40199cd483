"""Which settings cannot stand together, and which are doubtful.

Sources: spec/auth-and-operations.md §8, §25.5; decisions A2 and A3.
"""

from collections.abc import Callable, Iterator

from statewright.settings.kinds import is_loopback
from statewright.settings.reading import SettingsError
from statewright.settings.table import Table

_BCRYPT_LIMIT = 72
"""Bytes of a client secret that bcrypt looks at."""
_HMAC_ADVISED = 32
"""Bytes; a shorter key is weaker than the SHA-256 it keys."""


def check(settings: Table) -> None:
    """Raises :class:`SettingsError` for the first rule that the settings break together."""
    for rule in _RULES:
        rule(settings)


def doubts(settings: Table) -> Iterator[str]:
    """Sentences for the log about settings that stand, but may not do what their author thinks."""
    for doubt in _DOUBTS:
        yield from doubt(settings)


def refuse_missing_url(settings: Table) -> None:
    if settings.storage == "postgres" and settings.postgres_url is None:
        missing = settings.variable("postgres_url", beside="storage_backend")
        raise SettingsError(missing, f"must be set because {settings.variable('storage_backend')} is postgres")


def _refuse_missing_key(settings: Table) -> None:
    if settings.require_jwt and settings.iam_mode != "jwt":
        demand = settings.variable("require_jwt")
        raise SettingsError(
            settings.variable("iam_mode", beside="require_jwt"), f"must be jwt because {demand} is true"
        )
    if settings.iam_mode == "jwt" and settings.jwt_signing_key is None:
        missing = settings.variable("jwt_signing_key", beside="iam_mode")
        raise SettingsError(missing, f"must be set because {settings.variable('iam_mode')} is jwt")


def _refuse_public_mock(settings: Table) -> None:
    public = not is_loopback(settings.host)
    if settings.iam_mode == "mock" and public and not settings.allow_mock_on_public_address:
        raise SettingsError(
            settings.variable("host"),
            f"{settings.host} can be reached from other machines, and mock authentication lets everybody in; use"
            f" {settings.variable('iam_mode')}=jwt, or set {settings.variable('allow_mock_on_public_address')}=true",
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
        variable = settings.variable(missing, beside=given)
        raise SettingsError(variable, f"must be set because {settings.variable(given)} is")
    if settings.bootstrap_client_secret and len(settings.bootstrap_client_secret.reveal().encode()) > _BCRYPT_LIMIT:
        raise SettingsError(
            settings.variable("bootstrap_client_secret"), f"the value is longer than {_BCRYPT_LIMIT} bytes"
        )
    if pair[given] and not settings.bootstrap_tenant_id:
        raise SettingsError(settings.variable("bootstrap_tenant_id"), "must not be empty")


def _refuse_open_metrics(settings: Table) -> None:
    if settings.metrics_require_auth and settings.metrics_bearer is None:
        missing = settings.variable("metrics_bearer", beside="metrics_require_auth")
        raise SettingsError(missing, f"must be set because {settings.variable('metrics_require_auth')} is true")


def _refuse_clashing_numbers(settings: Table) -> None:
    if settings.http_port == settings.grpc_port != 0:
        raise SettingsError(settings.variable("grpc_port"), f"is the same as {settings.variable('http_port')}")
    if settings.keepalive_timeout <= settings.keepalive_interval:
        interval = settings.variable("keepalive_interval")
        raise SettingsError(settings.variable("keepalive_timeout"), f"must be longer than {interval}")


def _refuse_unreachable_node(settings: Table) -> None:
    if settings.node_bind_address in ("0.0.0.0", "::") and not settings.node_host:  # noqa: S104 - compared, not bound
        bound = settings.variable("node_bind_address")
        raise SettingsError(settings.variable("node_host"), f"must be set because {bound} is every address")


def _doubtful_storage(settings: Table) -> Iterator[str]:
    if settings.storage_backend in ("memory", "sqlite"):
        variable = settings.variable("storage_backend")
        yield f"{variable} is {settings.storage_backend}: the embedded PostgreSQL server is used in its place"
    if settings.storage == "embedded" and settings.postgres_url is not None:
        yield f"{settings.variable('postgres_url')} is not used because of {settings.variable('storage_backend')}"


def _doubtful_authentication(settings: Table) -> Iterator[str]:
    if settings.hmac_secret is not None and len(settings.hmac_secret.key_bytes()) < _HMAC_ADVISED:
        yield f"{settings.variable('hmac_secret')} is shorter than {_HMAC_ADVISED} bytes"
    if settings.iam_mode == "mock":
        if not settings.iam_mock_roles:
            yield f"{settings.variable('iam_mock_roles')} names no role; the default roles stay"
    elif settings.iam_keypair_default_validity_days < 30:
        yield f"{settings.variable('iam_keypair_default_validity_days')} is under 30 days: no tokens after that"


def _doubtful_openness(settings: Table) -> Iterator[str]:
    if settings.steps_open_tenant and settings.iam_mode == "jwt":
        variable = settings.variable("steps_open_tenant")
        yield f"{variable} is {settings.steps_open_tenant}: whoever reaches this service may run steps in that tenant"


def _doubtful_origins(settings: Table) -> Iterator[str]:
    if settings.cors_enabled and settings.cors_allowed_origins == ("*",):
        yield f"{settings.variable('cors_allowed_origins')} is *: every web site may call this service"


_RULES: tuple[Callable[[Table], None], ...] = (
    _refuse_missing_key,
    _refuse_half_a_client,
    _refuse_public_mock,
    _refuse_open_metrics,
    refuse_missing_url,
    _refuse_clashing_numbers,
    _refuse_unreachable_node,
)
_DOUBTS: tuple[Callable[[Table], Iterator[str]], ...] = (
    _doubtful_storage,
    _doubtful_authentication,
    _doubtful_openness,
    _doubtful_origins,
)
