"""How requests to other servers are sent (docs/reference/egress.md)."""

from statewright.egress import Egress, EgressLimits, EgressPolicy
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


def build_egress(settings: Settings) -> Egress:
    """What sends the requests of process languages: find it by ``runtime.extensions.get(Egress)``."""
    return Egress(build_egress_policy(settings))
