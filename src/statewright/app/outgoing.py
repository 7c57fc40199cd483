"""How requests to other servers are sent (docs/reference/egress.md)."""

from msgspec import structs

from statewright.auth.providers.documents import MAX_KEY_SET_BYTES
from statewright.egress import Egress, EgressLimits, EgressPolicy
from statewright.services.auth.key_sources import KEY_SET_TIMEOUT_S, FetchPolicy
from statewright.settings import Settings


def build_egress_policy(settings: Settings) -> EgressPolicy:
    """Where the settings permit requests to go."""
    return EgressPolicy(
        networks=settings.egress_networks,
        hosts=settings.egress_hosts,
        ports=settings.egress_ports,
        requires_https=settings.egress_require_https,
        certificates=settings.egress_ca,
        limits=EgressLimits(
            timeout_s=settings.egress_timeout.total_seconds(),
            max_body_bytes=settings.egress_max_body_bytes,
            max_requests=settings.egress_max_requests,
            max_tenant_requests=settings.egress_max_tenant_requests,
        ),
    )


def build_provider_policy(settings: Settings) -> FetchPolicy:
    """How identity providers are asked for what they publish."""
    times = (
        settings.oidc_connect_timeout_ms,
        settings.oidc_socket_timeout_ms,
        settings.oidc_connection_request_timeout_ms,
    )
    policy = build_egress_policy(settings)
    limits = structs.replace(
        policy.limits,
        timeout_s=max(sum(times) / 1000, KEY_SET_TIMEOUT_S),
        connect_timeout_s=times[0] / 1000,
        read_timeout_s=times[1] / 1000,
        max_body_bytes=MAX_KEY_SET_BYTES,
    )
    policy = structs.replace(
        policy,
        is_open=settings.oidc_allow_private_networks,
        requires_https=settings.oidc_require_https or settings.egress_require_https,
        limits=limits,
    )
    return FetchPolicy(
        discovery=Egress(policy),
        key_sets=Egress(structs.replace(policy, min_tls="1.3")),
        timeout_s=sum(times) / 1000,
        grace=settings.oidc_key_grace,
    )


def build_egress(settings: Settings) -> Egress:
    """What sends the requests of process languages: find it by ``runtime.extensions.get(Egress)``."""
    return Egress(build_egress_policy(settings))
