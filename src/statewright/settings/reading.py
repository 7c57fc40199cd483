"""From environment variables to settings: which variable counts, secrets in files, unknown names, and combinations that
are refused or doubtful.

Sources: docs/reference/authentication.md#clients, docs/reference/service.md#what-stops-the-start; decisions A2 and A3.
"""

import difflib
import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from itertools import combinations
from pathlib import Path
from typing import Final

from msgspec import Struct

from statewright.settings.kinds import Reader, is_loopback, refuse_bytes
from statewright.settings.step_aliases import NEEDLESS_STEP_VARIABLES, STEP_PREFIX
from statewright.settings.table import ALIAS_PREFIX, PREFIX, SETTINGS, Table, find_readers, list_variables

CLIENT_VARIABLES: Final = frozenset({
    "API_TOKEN", "API_URL", "CA", "CLIENT_CERT", "CLIENT_ID", "CLIENT_KEY", "CLIENT_SECRET", "CLIENT_SECRET_FILE",
    "CLIENT_SIGNING_KEY_FILE", "CLIENT_SIGNING_KEY_ID", "TOKEN_AUDIENCE",
    "COMPUTE_ENDPOINT", "COMPUTE_GRPC_ENDPOINT", "COMPUTE_HTTP_BASE", "COMPUTE_TAGS", "COMPUTE_TOKEN",
    "COSIGN_VERIFY", "HOST", "IMAGE", "INSTALL_DIR", "PROFILES", "TOKEN", "TOKEN_FILE", "URL", "VERSION",
})  # fmt: skip
"""Names that clients, images and installers read: no settings of the service, and no misspelt ones either."""

NEEDLESS_VARIABLES: Final = frozenset({
    "CLUSTER_ENABLED", "DEBUG", "DISPATCH_ALLOW_LOOPBACK_FOR_TESTING", "GOSSIP_ADDR", "GOSSIP_STABILITY_WINDOW",
    "GRPC_NODE_ADDR", "NODE_ADDR", "POSTGRES_MAX_CONN_IDLE_TIME", "SCHEDULER_COORDINATOR", "SCHEDULER_DISTRIBUTION",
    "SCHEMA_EXTEND_MAX_RETRIES", "SCHEMA_SAVEPOINT_INTERVAL", "SEED_NODES", "SQLITE_AUTO_MIGRATE",
    "SQLITE_BUSY_TIMEOUT", "SQLITE_CACHE_SIZE", "SQLITE_PATH", "SQLITE_SEARCH_SCAN_LIMIT", "TX_OUTCOME_TTL",
    "TX_REAP_INTERVAL", "TX_TTL",
})  # fmt: skip
"""Documented names that tune what this service has no need of; one warning names all that are set."""

_NEEDLESS: Final = NEEDLESS_STEP_VARIABLES | {ALIAS_PREFIX + name for name in NEEDLESS_VARIABLES}

_KUBERNETES_LINK: Final = re.compile(
    r"\w+_(?:SERVICE_HOST|SERVICE_PORT(?:_\w+)?|PORT_[0-9]+_(?:TCP|UDP|SCTP)(?:_(?:PROTO|PORT|ADDR))?)"
)
_KUBERNETES_ADDRESS: Final = re.compile(r"(?:tcp|udp|sctp)://")


class SettingsError(ValueError):
    """A setting, or two together, with which the service must not start. ``variable`` is as its author wrote it."""

    def __init__(self, variable: str, problem: str) -> None:
        super().__init__(f"{variable}: {problem}")
        self.variable = variable
        self.problem = problem


class Reading(Struct, frozen=True):
    """A value and the variable it came from."""

    variable: str
    value: object


def read_settings(names: Collection[str], environment: Mapping[str, str]) -> dict[str, Reading]:
    """The fields among ``names`` that ``environment`` sets. Raises :class:`SettingsError` if one is malformed."""
    readings = {name: _read_setting(name, environment) for name in names}
    return {name: reading for name, reading in readings.items() if reading is not None}


def refuse_unknown(environment: Mapping[str, str]) -> None:
    """Raises :class:`SettingsError` for an unknown name with our prefix: it would be a setting that does nothing."""
    ours = sorted(variable for variable in _list_known() if variable.startswith(PREFIX))
    for variable in sorted(environment):
        name = variable.removeprefix(PREFIX)
        if name == variable or name in CLIENT_VARIABLES or variable in ours:
            continue
        if not _is_kubernetes_link(variable, environment):
            raise SettingsError(variable, "unknown setting" + _suggest(variable, ours))


def find_unused(environment: Mapping[str, str]) -> Iterator[str]:
    """Sentences on the variables of the dialects that are set but have no effect in this service."""
    known = _list_known()
    needless: list[str] = []
    for variable in sorted(environment):
        if not variable.startswith((ALIAS_PREFIX, STEP_PREFIX)) or variable in known:
            continue
        if variable in _NEEDLESS:
            needless.append(variable)
        elif variable.removeprefix(ALIAS_PREFIX) not in CLIENT_VARIABLES and not _is_kubernetes_link(
            variable, environment
        ):
            yield f"{variable} is unknown and ignored" + _suggest(variable, known | _NEEDLESS)
    if needless:
        yield f"{', '.join(needless)} without effect: this service has no need of what is tuned by that"


def _list_known() -> frozenset[str]:
    return frozenset(variable for name in SETTINGS for variable in list_variables(name))


def _suggest(variable: str, known: Collection[str]) -> str:
    """The end of a sentence: a name with the same prefix that ``variable`` may be a misspelling of, if there is one."""
    prefix, _, name = variable.partition("_")
    names = sorted(other.removeprefix(f"{prefix}_") for other in known if other.startswith(f"{prefix}_"))
    similar = difflib.get_close_matches(name.replace("DATABASE", "POSTGRES"), names, n=1)
    return f"; did you mean {prefix}_{similar[0]}?" if similar else ""


def _read_setting(name: str, environment: Mapping[str, str]) -> Reading | None:
    for variable, reader in find_readers(name).items():
        text = environment.get(variable)
        if text and reader.is_secret and variable.endswith("_FILE"):
            text = _read_secret_file(variable, text)
        if text or (text is not None and reader.keeps_empty):
            return Reading(variable, _read_value(variable, text, reader))
    return None


def _read_value(variable: str, text: str, reader: Reader) -> object:
    try:
        if not reader.takes_bytes:
            refuse_bytes(text)
        return reader.read(text)
    except ValueError as malformed:
        subject = "the value" if reader.is_secret else json.dumps(text[:80])
        raise SettingsError(variable, f"{subject} {malformed}") from None


def _read_secret_file(variable: str, path: str) -> str:
    """The secret in the file; trailing white space is the editor's, not the secret's."""
    try:
        return Path(path).read_bytes().rstrip(b" \t\r\n").decode("utf-8", "surrogateescape")
    except (OSError, ValueError) as unreadable:  # ValueError: a path with a NUL character
        reason = getattr(unreadable, "strerror", None) or "not a path"
        raise SettingsError(variable, f"cannot read {json.dumps(path[:200])}: {reason}") from None


def _is_kubernetes_link(variable: str, environment: Mapping[str, str]) -> bool:
    """Whether Kubernetes has set the variable, to announce a service that is called ``statewright``."""
    if variable.endswith("_PORT") and _KUBERNETES_ADDRESS.match(environment[variable]):
        return True
    return _KUBERNETES_LINK.fullmatch(variable) is not None


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


def _refuse_clashing_ports(settings: Table) -> None:
    listeners = (
        *(("http_port", settings.host), ("grpc_port", settings.host)),
        *(("admin_port", settings.admin_bind_address), ("node_port", settings.node_bind_address)),
    )
    for (earlier, host), (later, other) in combinations(listeners, 2):
        if getattr(settings, earlier) == getattr(settings, later) != 0 and _overlap(host, other):
            raise SettingsError(settings.name_variable(later), f"is the same as {settings.name_variable(earlier)}")


def _overlap(host: str, other: str) -> bool:
    """Whether listeners at the two addresses may have an address in common."""
    addresses = {"127.0.0.1" if name == "localhost" else name for name in (host, other)}
    return len(addresses) == 1 or not addresses.isdisjoint(("0.0.0.0", "::"))  # noqa: S104 - compared, not bound


def _refuse_short_timeout(settings: Table) -> None:
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
    _refuse_clashing_ports,
    _refuse_short_timeout,
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
