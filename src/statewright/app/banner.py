"""What a person at the terminal is told."""

import sys

from statewright.settings import Settings


def print_banner(settings: Settings, http_port: int, grpc_port: int, admin_port: int) -> None:
    """Where everything is; loud about mock authentication (decision A3). Nothing when it is not wanted."""
    if settings.suppress_banner:
        return
    lines = [
        "",
        "  Statewright",
        f"  REST   http://{settings.host}:{http_port}{settings.context_path}   (described at /docs)",
        f"  gRPC   {settings.host}:{grpc_port}",
        f"  admin  http://{settings.admin_bind_address}:{admin_port}   (/livez /readyz /metrics)",
        f"  data   {'PostgreSQL by URL' if settings.storage == 'postgres' else settings.data_directory}",
    ]
    if settings.iam_mode == "mock":
        lines += [
            "",
            "  WARNING: mock authentication. Every caller is an administrator of one tenant. Never expose this.",
        ]
    sys.stdout.write("\n".join([*lines, "", ""]))
    sys.stdout.flush()
