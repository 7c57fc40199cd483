"""Every setting with its section, the way its text is read, its meaning and its default.

Sources: docs/reference/settings.md#settings, docs/reference/grpc.md#settings,
docs/reference/workflows.md#settings-and-limits-of-workflows, docs/reference/search.md#limits-and-settings-of-searches.

To add a setting, add a field here, and its row to docs/reference/settings.md; ``app`` hands it on to the part that
needs it. Rules on several settings are in ``reading.py``.
"""

from collections.abc import Mapping
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Annotated, Final, Literal, get_type_hints

from msgspec import Struct

from statewright.entity import PrincipalKind
from statewright.network.sockets import Network
from statewright.network.tls import Tls, TlsVersion
from statewright.settings.kinds import (
    ADDRESS,
    CONTEXT_PATH,
    ENCRYPTION_KEYS,
    FLAG,
    HOST_PATTERNS,
    HOSTS,
    ID,
    KEY,
    LEVEL,
    NAMES,
    NETWORKS,
    ORIGINS,
    PAIRS,
    PATH,
    PEM,
    PORT,
    PORT_RANGES,
    POSTGRES_URL,
    PUBLIC_URL,
    RETENTION,
    SECRET,
    SECRET_PAIRS,
    TEXT,
    Reader,
    Retention,
    Secret,
    choice,
    duration,
    duration_between,
    integer,
    period,
    positive_or,
    seconds,
)
from statewright.settings.kinds import read_duration as span
from statewright.settings.step_aliases import STEP_ALIASES
from statewright.telemetry.logs import LogFormat, LogLevel

PREFIX: Final = "STATEWRIGHT_"
ALIAS_PREFIX: Final = "CYODA_"


class Setting(Struct, frozen=True):
    """What a field of :class:`Table` says about itself. ``alias``: it has a ``CYODA_`` name, too."""

    section: str
    reader: Reader
    meaning: str
    alias: bool = True


_server = partial(Setting, "Server")
_admin = partial(Setting, "Admin listener and metrics")
_logging = partial(Setting, "Logging")
_auth = partial(Setting, "Authentication")
_cors = partial(Setting, "CORS")
_storage = partial(Setting, "Storage")
_workflow = partial(Setting, "Workflows and schedules")
_compute = partial(Setting, "Calculation members and callouts")
_cluster = partial(Setting, "Nodes of one database")
_computations = partial(Setting, "Computations", alias=False)
_search = partial(Setting, "Search and statistics")
_steps = partial(Setting, "JSON step engine")
_ops = partial(Setting, "Operations API")
_console = partial(Setting, "Console")
_egress = partial(Setting, "Requests to other servers", alias=False)
_ours = partial(partial, alias=False)

_DURATION: Final = duration()
_DURATION_OR_ZERO: Final = duration(zero=True)


class Table(Struct, frozen=True, kw_only=True):
    """The settings of one process. ``statewright.settings.Settings`` adds how they are built from variables."""

    host: Annotated[str, _ours(_server)(ADDRESS, "bind address of HTTP and gRPC; `0.0.0.0` for all interfaces")] = (
        "127.0.0.1"
    )
    http_port: Annotated[int, _server(PORT, "port of the REST API; 0 lets the system choose")] = 8080
    http_header_timeout: Annotated[
        timedelta,
        _ours(_server)(
            seconds(), "longest wait for the head of a request, also of the next one; the connection is closed then"
        ),
    ] = span("15s")
    http_max_header_bytes: Annotated[
        int, _ours(_server)(integer(1024, unit="bytes"), "largest head of a request; 431 beyond it")
    ] = 65_536
    http_min_body_rate: Annotated[
        int,
        _ours(_server)(
            integer(0, unit="bytes a second"), "least average speed of the body of a request; 408 below it; 0: none"
        ),
    ] = 256
    http_body_grace: Annotated[
        timedelta, _ours(_server)(seconds(), "how long a body may be waited for before its speed counts")
    ] = span("10s")
    trusted_proxies: Annotated[
        tuple[Network, ...],
        _ours(_server)(NETWORKS, "networks of proxies whose `X-Forwarded-For` names the client; empty: none"),
    ] = ()
    tls_cert: Annotated[
        Path | None, _ours(_server)(PATH, "PEM file with the certificate chain of HTTP and gRPC; empty: no TLS")
    ] = None
    tls_key: Annotated[Path | None, _ours(_server)(PATH, "PEM file with the key of the certificate")] = None
    tls_min_version: Annotated[
        TlsVersion, _ours(_server)(choice("1.2", "1.3"), "oldest version of TLS that clients may use")
    ] = "1.2"
    tls_client_ca: Annotated[
        Path | None, _ours(_server)(PATH, "PEM file of CAs: only clients with a certificate of theirs are let in")
    ] = None
    context_path: Annotated[str, _server(CONTEXT_PATH, "prefix of the REST API; empty is the root")] = "/api"
    error_response_mode: Annotated[
        Literal["sanitized", "verbose"],
        _server(choice("sanitized", "verbose"), "`verbose` shows internal error text in 5xx answers: development only"),
    ] = "sanitized"
    suppress_banner: Annotated[bool, _server(FLAG, "hides the banner and the mock authentication warning")] = False
    startup_timeout: Annotated[timedelta, _server(_DURATION, "longest wait for storage and migrations")] = span("30s")
    shutdown_timeout: Annotated[
        timedelta, _ours(_server)(_DURATION_OR_ZERO, "how long open calls may take to finish after a stop signal")
    ] = span("10s")
    drain_window: Annotated[
        timedelta,
        _ours(_server)(
            _DURATION_OR_ZERO,
            "how long new requests are still served after a stop signal, while readiness says 503 to load balancers",
        ),
    ] = span("1s")

    admin_port: Annotated[int, _admin(PORT, "port of `/livez`, `/readyz` and `/metrics`")] = 9091
    admin_bind_address: Annotated[str, _admin(ADDRESS, "bind address of the admin listener")] = "127.0.0.1"
    metrics_bearer: Annotated[Secret | None, _admin(SECRET, "bearer token that `/metrics` demands")] = None
    metrics_require_auth: Annotated[bool, _admin(FLAG, "refuses to start without a metrics bearer")] = False

    metrics_max_labels: Annotated[
        int,
        _ours(_admin)(
            integer(0, 10_000),
            "how many sets of model, transition, function and tags each metric of runs tells apart; further ones are"
            " `other`; 0: all are",
        ),
    ] = 100
    metrics_models: Annotated[
        tuple[str, ...],
        _ours(_admin)(
            NAMES, "models that metrics of runs tell apart, `name` or `name/version`; empty: those that come first"
        ),
    ] = ()

    otel_enabled: Annotated[
        bool, _admin(FLAG, "makes spans and sends them as the `OTEL_*` variables say ([traces](traces.md))")
    ] = False

    log_level: Annotated[LogLevel, _logging(LEVEL, "least severe events that are logged")] = "info"
    log_format: Annotated[LogFormat, _ours(_logging)(choice("text", "json"), "form of the lines, one per event")] = (
        "text"
    )

    access_log: Annotated[
        bool, _ours(_logging)(FLAG, "logs a line for every HTTP request, probes excepted (event `request_answered`)")
    ] = False
    iam_mode: Annotated[
        Literal["mock", "jwt"], _auth(choice("mock", "jwt"), "`mock` accepts every request as one fixed principal")
    ] = "mock"
    require_jwt: Annotated[bool, _auth(FLAG, "refuses to start unless the mode is jwt with a signing key")] = False
    allow_mock_on_public_address: Annotated[
        bool, _ours(_auth)(FLAG, "permits mock authentication on an address that other machines can reach")
    ] = False
    allowed_hosts: Annotated[
        tuple[str, ...],
        _ours(_auth)(
            HOSTS,
            "names by which callers without credentials (mock mode, an open tenant) may address the service, beside"
            " addresses, `localhost` and names without a dot; `*`: any",
        ),
    ] = ()
    iam_mock_roles: Annotated[
        tuple[str, ...], _auth(NAMES, "roles of the mock principal; a list without names leaves the default")
    ] = "ROLE_ADMIN", "ROLE_M2M"
    iam_mock_kind: Annotated[
        PrincipalKind, _auth(choice("user", "service", "system"), "kind of the mock principal")
    ] = "user"
    jwt_signing_key: Annotated[
        Secret | None,
        _auth(PEM, "RSA private key (PKCS#8 or PKCS#1) that signs and verifies tokens; required in jwt mode"),
    ] = None
    jwt_issuer: Annotated[str, _auth(TEXT, "issued and required `iss`")] = "cyoda"
    jwt_audience: Annotated[str, _auth(TEXT, "issued and required `aud`; empty: none")] = ""
    jwt_expiry_seconds: Annotated[int, _auth(integer(1, 315_360_000, unit="seconds"), "life of issued tokens")] = 3600
    jwt_bootstrap_audience: Annotated[
        Literal["client", "human"],
        _auth(choice("client", "human"), "audience label of the configured key; only a `client` key signs tokens"),
    ] = "client"
    iam_keypair_default_validity_days: Annotated[
        int,
        _auth(
            integer(1, 36_500, unit="days"),
            "how long after the start the configured key signs and is published, and other key pairs unless they say"
            " otherwise",
        ),
    ] = 365
    bootstrap_client_id: Annotated[str, _auth(TEXT, "id of a client that exists from the start")] = ""
    bootstrap_client_secret: Annotated[Secret | None, _auth(SECRET, "its secret, 72 bytes at most")] = None
    bootstrap_tenant_id: Annotated[str, _auth(ID, "its tenant")] = "default-tenant"
    bootstrap_user_id: Annotated[str, _auth(ID, "its user id")] = "admin"
    bootstrap_roles: Annotated[tuple[str, ...], _auth(NAMES, "its roles; empty: none")] = "ROLE_ADMIN", "ROLE_M2M"

    encryption_key: Annotated[
        Secret | None,
        _ours(_auth)(
            ENCRYPTION_KEYS,
            "what private keys are encrypted with in the database: the first one encrypts, all decrypt; unset: a key"
            " that is derived from the signing key",
        ),
    ] = None
    iam_platform_tenant: Annotated[
        str,
        _ours(_auth)(
            ID,
            "tenant whose administrators change what is common to all tenants: signing keys, log level, trace sampler;"
            " empty: those of any tenant",
        ),
    ] = ""
    oidc_require_https: Annotated[bool, _auth(FLAG, "identity providers are registered and called by https only")] = (
        True
    )
    oidc_allow_private_networks: Annotated[
        bool, _auth(FLAG, "identity providers may have private and loopback addresses: development only")
    ] = False
    oidc_roles_claim: Annotated[
        str, _auth(TEXT, "claim with the roles, in tokens of identity providers that name no other")
    ] = "roles"
    oidc_connect_timeout_ms: Annotated[
        int, _auth(integer(1, 600_000, unit="milliseconds"), "longest time of a connection to an identity provider")
    ] = 5000
    oidc_socket_timeout_ms: Annotated[
        int, _auth(integer(1, 600_000, unit="milliseconds"), "longest silence of an identity provider")
    ] = 5000
    oidc_connection_request_timeout_ms: Annotated[
        int,
        _auth(
            integer(1, 600_000, unit="milliseconds"),
            "added to the two others, the longest time of a request for a discovery document",
        ),
    ] = 5000
    oidc_key_grace: Annotated[
        timedelta,
        _ours(_auth)(
            _DURATION_OR_ZERO, "how long keys of an identity provider that fails are used beyond their five minutes"
        ),
    ] = span("5m")
    iam_trusted_key_registration_enabled: Annotated[
        bool, _auth(FLAG, "administrators may register public keys of others for token exchange and client assertions")
    ] = False
    iam_trusted_key_max_per_tenant: Annotated[
        int, _auth(integer(0, 1000), "trusted keys of a tenant that may count at a time; 0: any number")
    ] = 10
    iam_trusted_key_max_validity_days: Annotated[
        int, _auth(integer(1, 36_500, unit="days"), "how long a trusted key is valid unless its registration says so")
    ] = 365
    iam_trusted_key_max_jwk_properties: Annotated[
        int, _auth(integer(1, 1000), "most members of the JWK of a trusted key")
    ] = 20
    iam_m2m_admin_role_enabled: Annotated[
        bool, _auth(FLAG, "administrators may create clients that are administrators of their tenant, too")
    ] = False

    cors_enabled: Annotated[bool, _cors(FLAG, "answers preflights and adds the CORS headers")] = True
    cors_allowed_origins: Annotated[
        tuple[str, ...],
        _cors(ORIGINS, "origins that may call; empty: `http` and `https` on loopback, any port; `*`: all"),
    ] = ()

    storage_backend: Annotated[
        Literal["", "postgres", "embedded", "memory", "sqlite"],
        _storage(
            choice("postgres", "embedded", "memory", "sqlite"),
            "`postgres` needs its URL, the others mean the embedded server; unset: `postgres` if there is a URL",
        ),
    ] = ""
    postgres_url: Annotated[
        Secret | None, _storage(POSTGRES_URL, "the database, `postgres://user:password@host:port/name`")
    ] = None
    postgres_max_conns: Annotated[int, _storage(integer(1, 10_000), "most connections of the pool")] = 25
    postgres_min_conns: Annotated[
        int, _storage(integer(0, 10_000), "connections kept open; never more than the most")
    ] = 5
    postgres_auto_migrate: Annotated[bool, _storage(FLAG, "applies pending migrations at the start")] = True
    data_directory: Annotated[
        Path,
        _ours(_storage)(
            PATH,
            "where the embedded server keeps its data; `$XDG_DATA_HOME/statewright` where that is set",
        ),
    ] = Path("~/.local/share/statewright")
    history_retention: Annotated[
        Retention,
        _ours(_storage)(RETENTION, "how long superseded versions are kept, of every tenant; older ones are removed"),
    ] = Retention()
    history_prune_interval: Annotated[
        timedelta, _ours(_storage)(_DURATION, "pause between removals of superseded versions that are too old")
    ] = span("1h")
    model_cache_lease: Annotated[timedelta, _storage(_DURATION, "longest use of a cached model unchecked")] = span("5m")

    max_state_visits: Annotated[
        int, _workflow(positive_or(10), "how often one run may enter the same state before it is stopped")
    ] = 10
    processor_output: Annotated[
        Literal["lenient", "strict"],
        _ours(_workflow)(choice("lenient", "strict"), "`strict` validates what processors return against the model"),
    ] = "lenient"
    scheduler_enabled: Annotated[bool, _workflow(FLAG, "fires scheduled transitions; off: only arms them")] = True
    scheduler_scan_interval: Annotated[timedelta, _workflow(_DURATION, "pause between scans")] = span("1s")
    scheduler_batch_size: Annotated[int, _workflow(integer(1, 100_000), "most due transitions taken by one scan")] = 100
    scheduler_redispatch_backoff: Annotated[
        timedelta, _workflow(_DURATION, "pause before a transition that was taken may be taken again")
    ] = span("30s")
    scheduler_expiry_grace: Annotated[
        timedelta, _workflow(_DURATION_OR_ZERO, "lateness beyond its timeout at which a transition still fires")
    ] = span("100ms")
    scheduler_max_attempts: Annotated[
        int,
        _ours(_workflow)(integer(0, 1_000_000), "failed fires after which a scheduled transition is parked; 0: never"),
    ] = 0

    steps_dispatch: Annotated[
        Literal["poll", "both"],
        _ours(_steps)(
            choice("poll", "both"), "`both` also pushes jobs to calculation members that have the job type as a tag"
        ),
    ] = "both"
    steps_sweep_interval: Annotated[
        timedelta, _ours(_steps)(_DURATION, "pause between looks for jobs whose lease has ended")
    ] = span("5s")
    steps_retention: Annotated[
        timedelta,
        _ours(_steps)(
            _DURATION_OR_ZERO, "age at which completed and cancelled instances of the step engine are removed; 0: never"
        ),
    ] = span("0s")
    flows_retention: Annotated[
        timedelta,
        _ours(_steps)(_DURATION_OR_ZERO, "age at which completed and cancelled flows are removed; 0: never"),
    ] = span("0s")
    flows_requests: Annotated[
        bool,
        _ours(_steps)(
            FLAG, "the service itself does `request:*` and resources of flows; off: they are jobs for workers"
        ),
    ] = False
    playbooks_retention: Annotated[
        timedelta,
        _ours(_steps)(_DURATION_OR_ZERO, "age at which completed and cancelled executions are removed; 0: never"),
    ] = span("0s")
    playbooks_requests: Annotated[
        bool,
        _ours(_steps)(FLAG, "the service sends the requests of `http` tasks; off: playbooks that need it are refused"),
    ] = False
    playbooks_secrets: Annotated[
        Path | None,
        _ours(_steps)(PATH, "directory of credentials that playbooks name: a directory for each tenant; empty: none"),
    ] = None

    grpc_port: Annotated[int, _compute(PORT, "port of the gRPC CloudEvents service; 0 lets the system choose")] = 9090
    grpc_max_message_bytes: Annotated[
        int, _ours(_compute)(integer(1024, 2_147_483_647, unit="bytes"), "largest message that gRPC clients may send")
    ] = 4_194_304
    grpc_memory_bytes: Annotated[
        int,
        _ours(_compute)(
            integer(33_554_432, unit="bytes"),
            "what all gRPC clients together may hold in memory; the newest calls are refused beyond it",
        ),
    ] = 268_435_456
    grpc_max_connections: Annotated[
        int,
        _ours(_compute)(integer(1, 1_000_000), "most gRPC connections of a process; at most a quarter of its files"),
    ] = 10_000
    grpc_request_timeout: Annotated[
        timedelta, _ours(_compute)(_DURATION, "how long the message of a call may take to be there; not of streams")
    ] = span("30s")
    grpc_idle_timeout: Annotated[
        timedelta, _ours(_compute)(_DURATION, "after which a gRPC connection without calls is closed")
    ] = span("5m")
    keepalive_interval: Annotated[timedelta, _compute(seconds(), "pause between two probes of a member")] = span("10s")
    keepalive_timeout: Annotated[timedelta, _compute(seconds(), "silence that disconnects a member")] = span("30s")
    tx_token_ttl: Annotated[timedelta, _compute(_DURATION, "validity of a callout's transaction token")] = span("90s")
    retry_attempts: Annotated[
        int, _ours(_compute)(integer(1, 100), "most attempts of a callout whose retry policy is `FIXED`")
    ] = 3
    retry_delay: Annotated[timedelta, _ours(_compute)(_DURATION_OR_ZERO, "pause between such attempts")] = span("500ms")

    computation_processes: Annotated[
        int,
        _computations(
            integer(1, 64),
            "processes that compute what is too long for the event loop; a tenant has half of them at most",
        ),
    ] = 2
    computation_timeout: Annotated[
        timedelta,
        _computations(
            _DURATION,
            "most processor time of one computation, and half as long again by the clock; its process is killed then",
        ),
    ] = span("3s")
    computation_wait: Annotated[
        timedelta, _computations(_DURATION, "longest that a computation waits for a process before it is refused")
    ] = span("10s")
    computation_memory: Annotated[
        int,
        _computations(
            integer(128 * 2**20, unit="bytes"), "most memory of one of these processes beside what is mapped from files"
        ),
    ] = 512 * 2**20

    workers: Annotated[
        int, _ours(_cluster)(integer(1, 256), "processes of `statewright serve`, which share its ports; each is a node")
    ] = 1
    node_id: Annotated[str, _cluster(TEXT, "name of this node for people; empty: host name and process id")] = ""
    node_bind_address: Annotated[
        str, _ours(_cluster)(ADDRESS, "bind address of the channel between nodes; for several hosts one they reach")
    ] = "127.0.0.1"
    node_port: Annotated[
        int,
        _ours(_cluster)(
            PORT,
            "port of the channel between nodes, the first of `WORKERS` + 1 with workers; 0: any",
        ),
    ] = 0
    node_host: Annotated[
        str, _ours(_cluster)(TEXT, "host or address at which other nodes reach this one; empty: the bind address")
    ] = ""
    node_lease: Annotated[
        timedelta, _ours(_cluster)(_DURATION, "how long a node counts as alive after its last sign of life")
    ] = span("10s")
    hmac_secret: Annotated[
        Secret | None,
        _cluster(
            KEY, "signs transaction tokens and proves nodes to each other; the same on all; unset: one in the database"
        ),
    ] = None
    dispatch_wait_timeout: Annotated[
        timedelta, _cluster(_DURATION_OR_ZERO, "how long a callout waits for a member when there are other nodes")
    ] = span("5s")
    dispatch_forward_timeout: Annotated[
        timedelta, _cluster(_DURATION_OR_ZERO, "longest callout through another node; 0: only its own limit counts")
    ] = span("0s")
    proxy_timeout: Annotated[
        timedelta,
        _cluster(_DURATION_OR_ZERO, "longest wait for the node that owns a callback's transaction; 0: while it lives"),
    ] = span("0s")

    search_snapshot_ttl: Annotated[
        timedelta, _search(_DURATION, "how long results of asynchronous searches are kept after their end")
    ] = span("24h")
    search_reap_interval: Annotated[timedelta, _search(_DURATION, "pause between removals of expired results")] = span(
        "5m"
    )
    search_max_sort_keys: Annotated[int, _search(positive_or(16), "most sort keys of one search")] = 16
    search_timeout: Annotated[timedelta, _ours(_search)(_DURATION, "longest time of a direct search")] = span("30s")
    search_scan_budget: Annotated[
        int,
        _ours(_search)(
            integer(0, 2_147_483_647), "most entities that a direct search judges one by one; 0: any number"
        ),
    ] = 1_000_000
    stats_group_max: Annotated[int, _search(positive_or(10_000), "most groups of one grouped statistic")] = 10_000

    steps_open_tenant: Annotated[
        str,
        _ours(_steps)(ID, "tenant of those who call `/v1` or `workflow.v1` without credentials; empty: as elsewhere"),
    ] = ""

    ops_enabled: Annotated[
        bool,
        _ours(_ops)(FLAG, "serves `/ops/v1`; off: 404, what is suspended stays so, and webhooks and bulk jobs rest"),
    ] = True
    idempotency_retention: Annotated[
        timedelta,
        _ours(_ops)(
            duration_between("1m", "720h"), "how long the answer to a request with an `Idempotency-Key` is kept"
        ),
    ] = span("24h")
    idempotency_wait: Annotated[
        timedelta, _ours(_ops)(_DURATION, "how long a repeated request waits for the first one with its key")
    ] = span("10s")
    idempotency_sweep_interval: Annotated[
        timedelta, _ours(_ops)(_DURATION, "pause between removals of records whose retention is over")
    ] = span("5m")
    wait_look_interval: Annotated[
        timedelta, _ours(_ops)(_DURATION, "pause between looks for what other nodes did to awaited entities")
    ] = span("250ms")
    waiters_per_node: Annotated[int, _ours(_ops)(integer(1, 1_000_000), "requests that may wait at a time")] = 5000
    incidents: Annotated[
        Literal["on", "off"], _ours(_ops)(choice("on", "off"), "whether failed work is kept as incidents")
    ] = "on"
    incident_retention: Annotated[timedelta, _ours(_ops)(period(), "how long resolved incidents are kept")] = span(
        "720h"
    )
    incident_max_payload: Annotated[
        int, _ours(_ops)(integer(0, 10_485_760), "bytes of what was asked for that an incident keeps")
    ] = 65_536
    incident_sweep_interval: Annotated[
        timedelta, _ours(_ops)(_DURATION, "pause between looks for incidents that took care of themselves")
    ] = span("30s")
    alert_no_worker_after: Annotated[
        timedelta,
        _ours(_ops)(_DURATION_OR_ZERO, "how long work waits without a worker before an incident; 0: for ever"),
    ] = span("60s")
    ops_audit_retention: Annotated[
        timedelta, _ours(_ops)(period(), "how long the audit trail of operators is kept")
    ] = span("9600h")
    events_retention: Annotated[
        timedelta, _ours(_ops)(period(), "how long events are kept of tenants that record them")
    ] = span("168h")
    webhook_allow_http: Annotated[
        bool,
        _ours(_ops)(
            FLAG,
            "webhooks may go to `http` URLs, and brokers be reached without TLS; only for tests and private networks",
        ),
    ] = False
    webhook_allow_private_networks: Annotated[
        bool, _ours(_ops)(FLAG, "webhooks and brokers may have addresses that are not public")
    ] = False
    events_source: Annotated[str, _ours(_ops)(TEXT, "what the `source` of events begins with")] = "statewright"

    console: Annotated[
        bool, _ours(_console)(FLAG, "serves the web console at `/console`; off: there is no such path")
    ] = True
    public_url: Annotated[
        str,
        _ours(_console)(PUBLIC_URL, "where browsers find the console; logins by a provider need it; empty: unknown"),
    ] = ""
    console_session_idle: Annotated[
        timedelta, _ours(_console)(duration_between("1m", "24h"), "a login that nobody used for so long has ended")
    ] = span("1h")
    console_session_max: Annotated[
        timedelta, _ours(_console)(duration_between("1m", "168h"), "a login ends after so long, and with its token")
    ] = span("8h")
    console_oidc_clients: Annotated[
        tuple[tuple[str, str], ...],
        _ours(_console)(PAIRS, "identity providers that one logs in with: id of the provider, and our client there"),
    ] = ()
    console_oidc_secrets: Annotated[
        Secret | None, _ours(_console)(SECRET_PAIRS, "secrets of those clients, by the id of the provider")
    ] = None
    egress_hosts: Annotated[
        tuple[str, ...],
        _egress(HOST_PATTERNS, "the only hosts that requests are sent to, webhooks among them; empty: any"),
    ] = ()
    egress_networks: Annotated[
        tuple[Network, ...],
        _egress(NETWORKS, "networks that are reached although they are private, loopback, link-local or the like"),
    ] = ()
    egress_ports: Annotated[tuple[tuple[int, int], ...], _egress(PORT_RANGES, "ports that requests are sent to")] = (
        (80, 80),
        (443, 443),
        (1024, 65535),
    )
    egress_require_https: Annotated[bool, _egress(FLAG, "refuses URLs with the scheme http")] = False
    egress_ca: Annotated[
        Path | None, _egress(PATH, "PEM file of certificate authorities that are trusted beside the usual ones")
    ] = None
    egress_timeout: Annotated[timedelta, _egress(_DURATION, "longest time of a request with all its redirects")] = span(
        "30s"
    )
    egress_max_body_bytes: Annotated[
        int, _egress(integer(1024, 1 << 30, unit="bytes"), "largest body of a request or an unpacked response")
    ] = 4 * 1024 * 1024
    egress_max_requests: Annotated[
        int, _egress(integer(1, 10_000), "requests of a process that are under way at a time")
    ] = 64
    egress_max_tenant_requests: Annotated[
        int, _egress(integer(1, 10_000), "likewise of one tenant; as many again wait, further ones fail")
    ] = 16

    sources: Mapping[str, str] = {}
    """Field → the variable that set it, as written."""
    warnings: tuple[str, ...] = ()
    """Sentences for the log: what is accepted without effect, or doubtful. Never the text of a secret."""

    @property
    def storage(self) -> Literal["postgres", "embedded"]:
        """Where the data is: decision A2."""
        if self.storage_backend:
            return "postgres" if self.storage_backend == "postgres" else "embedded"
        return "embedded" if self.postgres_url is None else "postgres"

    @property
    def tls(self) -> Tls | None:
        """What HTTP and gRPC are encrypted with."""
        if self.tls_cert is None or self.tls_key is None:
            return None
        return Tls(
            certificate=self.tls_cert, key=self.tls_key, min_version=self.tls_min_version, client_ca=self.tls_client_ca
        )

    def name_variable(self, name: str, *, beside: str = "") -> str:
        """The variable of the field ``name`` as it was written, else in the dialect of the field ``beside``."""
        if name in self.sources:
            return self.sources[name]
        neighbour = self.sources.get(beside, PREFIX)
        in_alias = neighbour.startswith(ALIAS_PREFIX) and SETTINGS[name].alias
        return (ALIAS_PREFIX if in_alias else PREFIX) + name.upper()


def _collect_settings() -> dict[str, Setting]:
    hints = get_type_hints(Table, include_extras=True)
    return {name: hint.__metadata__[0] for name, hint in hints.items() if hasattr(hint, "__metadata__")}


SETTINGS: Mapping[str, Setting] = _collect_settings()
"""What each field says about itself, by field name and in the order of the reference."""


def list_variables(name: str) -> tuple[str, ...]:
    """The variables that set the field ``name``; the first that is set counts."""
    return tuple(find_readers(name))


def find_readers(name: str) -> Mapping[str, Reader]:
    """The variables that set the field ``name``, in the order in which they count, and how the text of each is read."""
    setting = SETTINGS[name]
    prefixes = (PREFIX, ALIAS_PREFIX) if setting.alias else (PREFIX,)
    readers = {f"{prefix}{name.upper()}": setting.reader for prefix in prefixes}
    if alias := STEP_ALIASES.get(name):
        readers[alias.variable] = alias.reader or setting.reader
    endings = ("_FILE", "") if setting.reader.is_secret else ("",)
    return {variable + ending: reader for variable, reader in readers.items() for ending in endings}
