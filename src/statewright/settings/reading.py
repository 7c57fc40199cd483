"""From environment variables to values: which variable counts, secrets in files, and unknown names."""

import difflib
import json
import re
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Final

from msgspec import Struct

from statewright.settings.kinds import Reader
from statewright.settings.table import ALIAS_PREFIX, PREFIX, SETTINGS, list_variables

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
    variables = {variable for name in SETTINGS for variable in list_variables(name)}
    ours = sorted(variable.removeprefix(PREFIX) for variable in variables if variable.startswith(PREFIX))
    for variable in sorted(environment):
        name = variable.removeprefix(PREFIX)
        if name == variable or name in CLIENT_VARIABLES or name in ours or _is_kubernetes_link(variable, environment):
            continue
        similar = difflib.get_close_matches(name, ours, n=1)
        raise SettingsError(variable, "unknown setting" + (f"; did you mean {PREFIX}{similar[0]}?" if similar else ""))


def find_unused(environment: Mapping[str, str]) -> Iterator[str]:
    """Sentences on the variables of the dialect that are set but have no effect in this service."""
    known = {variable for name in SETTINGS for variable in list_variables(name)}
    needless: list[str] = []
    for variable in sorted(environment):
        name = variable.removeprefix(ALIAS_PREFIX)
        if name == variable or variable in known or name in CLIENT_VARIABLES:
            continue
        if name in NEEDLESS_VARIABLES:
            needless.append(variable)
        else:
            yield f"{variable} is unknown and ignored"
    if needless:
        yield f"{', '.join(needless)} without effect: this service has no need of what is tuned by that"


def _read_setting(name: str, environment: Mapping[str, str]) -> Reading | None:
    reader = SETTINGS[name].reader
    for variable in list_variables(name):
        text = environment.get(variable)
        if text and reader.is_secret and variable.endswith("_FILE"):
            text = _read_secret_file(variable, text)
        if text or (text is not None and reader.keeps_empty):
            return Reading(variable, _read_value(variable, text, reader))
    return None


def _read_value(variable: str, text: str, reader: Reader) -> object:
    try:
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
