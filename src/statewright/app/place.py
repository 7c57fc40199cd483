"""Where and as what this process is a node of the cluster."""

from importlib import metadata

from statewright.cluster.node import Place
from statewright.settings import Settings


def place_of(settings: Settings) -> Place:
    """What the other nodes are told, and how long this one lets them wait."""
    return Place(
        name=settings.node_id,
        program=program_version(),
        bind=settings.node_bind_address,
        ports=_ports(settings),
        host=settings.node_host,
        lease=settings.node_lease,
        secret=settings.hmac_secret.key_bytes() if settings.hmac_secret else None,
        dispatch_wait=settings.dispatch_wait_timeout,
        dispatch_limit=settings.dispatch_forward_timeout,
        relay_limit=settings.proxy_timeout,
        within=settings.startup_timeout,
    )


def _ports(settings: Settings) -> tuple[int, ...]:
    """With workers, a range of which each takes a free one; during a rolling restart there is one more of them."""
    first = settings.node_port
    return tuple(range(first, first + settings.workers + 1)) if first and settings.workers > 1 else (first,)


def program_version() -> str:
    """The release, as it is installed."""
    try:
        return metadata.version("statewright")
    except metadata.PackageNotFoundError:
        return "unknown"
