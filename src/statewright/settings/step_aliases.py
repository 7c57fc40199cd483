"""The variables of the public step engine: which settings they set, and how its forms of values are read.

Source: docs/reference/settings.md#names-of-the-public-step-engine.
"""

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final
from urllib.parse import quote, urlencode

from msgspec import Struct

from statewright.settings.kinds import Reader, Secret, read_postgres_url

STEP_PREFIX: Final = "WE_"

NEEDLESS_STEP_VARIABLES: Final = frozenset({
    "WE_AUDIT_LOG_ENABLED", "WE_KAFKA_SASL_MECHANISM", "WE_KAFKA_SASL_PASSWORD", "WE_KAFKA_SASL_USERNAME",
    "WE_KAFKA_SEED_BROKERS", "WE_KAFKA_TLS_CA_PATH", "WE_KAFKA_TLS_SERVER_NAME", "WE_KAFKA_TRANSPORT",
    "WE_OUTBOX_BATCH_SIZE",
})  # fmt: skip
"""What tunes a broker, which this service has not, and the audit trail, which it always keeps."""

_DSN_PARAMETER: Final = re.compile(r"\s*(\w+)\s*=\s*(?:'((?:[^'\\]|\\.)*)'|((?:[^\s'\\]|\\.)*))(?:\s+|$)", re.DOTALL)
_ESCAPED: Final = re.compile(r"\\(.)", re.DOTALL)


class StepAlias(Struct, frozen=True):
    """A variable of the public step engine. ``reader``: of its own form of values; None: that of the setting."""

    variable: str
    reader: Reader | None = None


def read_postgres_dsn(text: str) -> Secret:
    """A connection URL, or ``host=… dbname=…`` as libpq has it, which becomes one."""
    if re.match(r"\s*\w+\s*=", text) is None:
        return read_postgres_url(text)
    parameters: dict[str, str] = {}
    position = 0
    while position < len(text.rstrip()):
        parameter = _DSN_PARAMETER.match(text, position)
        if parameter is None:
            raise ValueError("is neither a URL that starts with postgres:// nor a list of parameters such as host=db")
        name, quoted, plain = parameter.groups()
        parameters[name] = _ESCAPED.sub(r"\1", plain if quoted is None else quoted)
        position = parameter.end()
    return read_postgres_url(_build_url(parameters))


def read_dispatch_mode(text: str) -> str:
    """The value of ``steps_dispatch`` that does what the mode says; the one with a broker is refused."""
    if text.strip() == "kafka_outbox":
        raise ValueError("is not available here: there is no broker, workers poll (polling)")
    if text.strip() != "polling":
        raise ValueError("is not one of polling, kafka_outbox")
    return "poll"


def _build_url(parameters: dict[str, str]) -> str:
    """The URL of those parameters. Directories of sockets and lists of hosts have no place but in the query."""
    user, password = (quote(parameters.pop(name, ""), safe="") for name in ("user", "password"))
    credentials = user + (f":{password}" if password else "")
    database = quote(parameters.pop("dbname", ""), safe="")
    address = ""
    if re.fullmatch(r"[A-Za-z0-9._-]+", parameters.get("host", "")):
        address = parameters.pop("host")
        address += f":{parameters.pop('port')}" if parameters.get("port", "").isdigit() else ""
    query = urlencode(parameters)
    return f"postgres://{credentials}{'@' if credentials else ''}{address}/{database}{'?' if query else ''}{query}"


STEP_ALIASES: Final[Mapping[str, StepAlias]] = MappingProxyType(
    {
        "postgres_url": StepAlias(
            "WE_POSTGRES_DSN",
            Reader(shape="secret: postgres:// URL, or `host=… dbname=…`", read=read_postgres_dsn, is_secret=True),
        ),
        "http_port": StepAlias("WE_REST_PORT"),
        "grpc_port": StepAlias("WE_GRPC_PORT"),
        "admin_port": StepAlias("WE_METRICS_PORT"),
        "log_level": StepAlias("WE_LOG_LEVEL"),
        "postgres_max_conns": StepAlias("DB_MAX_CONNS"),
        "postgres_min_conns": StepAlias("DB_MIN_CONNS"),
        "steps_dispatch": StepAlias(
            "WE_DISPATCH_MODE", Reader(shape="`polling` | `kafka_outbox`", read=read_dispatch_mode)
        ),
    }
)
"""By the name of the setting. The public engine's names of the pool's sizes have no prefix."""
