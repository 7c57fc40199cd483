"""How the text of a setting is read: one :class:`Reader` per kind of value, and :class:`Secret`.

A reader turns text into a value or raises ``ValueError`` with the rest of a sentence that starts with that text
("is not an integer"); the caller adds the variable's name. ``read`` and ``show`` are inverse to each other.
"""

import base64
import binascii
import hmac
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from decimal import Decimal
from ipaddress import AddressValueError, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from pathlib import Path
from typing import Final, cast
from urllib.parse import urlsplit

from msgspec import Struct

from statewright.ids import MAX_ID_BYTES

MASK: Final = "********"
"""What a secret shows in a repr, a log line or a message."""

_ENCRYPTION_KEY_BYTES: Final = 32
_URL_SAFE: Final = str.maketrans("-_", "+/")
_HEX: Final = re.compile(r"(?:[0-9a-fA-F]{2})+")
_INTEGER: Final = re.compile(r"[+-]?[0-9]{1,18}")
_TAKEN_PATHS: Final = frozenset({"console", "docs", "healthz", "openapi.json", "ops", "readyz", "v1"})
"""First segments of what the HTTP port serves beside the API."""
_TRUE: Final = frozenset({"1", "t", "T", "TRUE", "true", "True"})
_FALSE: Final = frozenset({"0", "f", "F", "FALSE", "false", "False"})
_DURATION_PART: Final = re.compile(r"([0-9]+(?:\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h)")
_DURATION: Final = re.compile(rf"\+?(?:{_DURATION_PART.pattern})+")
_MICROSECONDS: Final = {
    "h": Decimal(3_600_000_000),
    "m": Decimal(60_000_000),
    "s": Decimal(1_000_000),
    "ms": Decimal(1_000),
    "us": Decimal(1),
    "µs": Decimal(1),
    "μs": Decimal(1),
    "ns": Decimal("0.001"),
}
_LEVELS: Final = {"debug": "debug", "info": "info", "warn": "warn", "warning": "warn", "error": "error"}
_ORIGIN: Final = re.compile(
    r"(?P<scheme>https?)://(?P<host>\[[0-9a-f:.]+\]|[a-z0-9._-]+)(?::(?P<port>[1-9][0-9]{0,4}))?"
)
_DEFAULT_PORTS: Final = {"http": "80", "https": "443"}


class Secret:
    """Text that must not be shown: its repr and str are a mask, and comparing two takes constant time."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def reveal(self) -> str:
        """The text itself, to be used and not to be kept or logged."""
        return self._text

    def key_bytes(self) -> bytes:
        """The secret as a key: the bytes it names in hex, else its own (docs/reference/service.md#secrets-in-files)."""
        if _HEX.fullmatch(self._text):
            return bytes.fromhex(self._text)
        return self._bytes()

    def __repr__(self) -> str:
        return MASK

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and hmac.compare_digest(self._bytes(), other._bytes())

    def __hash__(self) -> int:
        return hash(self._text)

    def _bytes(self) -> bytes:
        # The environment hands over bytes that are no UTF-8 as lone surrogates; this gives the same bytes back.
        return self._text.encode("utf-8", "surrogateescape")


class Retention(Struct, frozen=True):
    """How long superseded versions are kept: of models with a period of their own, and of all others.

    ``models`` names them ``<name>/<version>``; None is for ever.
    """

    others: timedelta | None = None
    models: Mapping[str, timedelta | None] = {}

    def get_period(self, model: str | None) -> timedelta | None:
        """The period of a model, which may have been deleted since (None)."""
        return self.models[model] if model is not None and model in self.models else self.others

    @property
    def is_limited(self) -> bool:
        """Whether anything is ever removed."""
        return any(period is not None for period in (self.others, *self.models.values()))


class Reader(Struct, frozen=True, kw_only=True):
    """One way of reading text. ``shape`` says for documentation what the text may be.

    ``keeps_empty``: the empty text is a value of its own. Everywhere else a variable set to nothing counts as unset.
    ``takes_bytes``: also such as are no UTF-8, which Python keeps as lone surrogates.
    """

    shape: str
    read: Callable[[str], object]
    show: Callable[[object], str] = str
    is_secret: bool = False
    keeps_empty: bool = False
    takes_bytes: bool = False


def refuse_bytes(text: str) -> None:
    """Raises ``ValueError`` for a value that is no UTF-8."""
    if any("\ud800" <= character <= "\udfff" for character in text):
        raise ValueError("is not UTF-8 text")


def integer(low: int, high: int | None = None, *, unit: str = "") -> Reader:
    """A whole number in ``low … high``."""
    limits = f"at least {low}" if high is None else f"{low} to {high}"

    def read(text: str) -> int:
        number = _parse_integer(text)
        if number < low or (high is not None and number > high):
            raise ValueError(f"is not an integer {'of ' if high is None else 'from '}{limits}")
        return number

    return Reader(shape=f"integer, {limits}" + (f", {unit}" if unit else ""), read=read)


def positive_or(fallback: int) -> Reader:
    """A whole number; zero and below restore ``fallback``, as deployments of the reference expect."""

    def read(text: str) -> int:
        number = _parse_integer(text)
        return number if number > 0 else fallback

    return Reader(shape=f"integer, 0 or less restores {fallback}", read=read)


def choice(*words: str) -> Reader:
    """One of ``words``, to the letter."""

    def read(text: str) -> str:
        if text.strip() not in words:
            raise ValueError(f"is not one of {', '.join(words)}")
        return text.strip()

    return Reader(shape=" | ".join(f"`{word}`" for word in words), read=read)


def duration(*, zero: bool = False) -> Reader:
    """A duration with units, as in ``300ms``, ``90s``, ``1h30m``; ``zero``: whether it may be 0
    (docs/reference/service.md#reading-values).
    """

    def read(text: str) -> timedelta:
        return _require_positive(read_duration(text), zero=zero)

    return Reader(shape="duration" + (", may be 0" if zero else ""), read=read, show=_show_timedelta)


def duration_between(least: str, most: str) -> Reader:
    """A duration from ``least`` to ``most``."""

    def read(text: str) -> timedelta:
        value = read_period(text)
        if not read_duration(least) <= value <= read_duration(most):
            raise ValueError(f"must be from {least} to {most}")
        return value

    return Reader(shape=f"period from `{least}` to `{most}`", read=read, show=_show_timedelta)


FOR_EVER: Final = "forever"
_DAYS: Final = re.compile(r"([0-9]{1,6})d")


def read_period(text: str) -> timedelta:
    """A positive duration, or days as in ``90d``."""
    days = _DAYS.fullmatch(text.strip())
    return _require_positive(timedelta(days=int(days[1])) if days else read_duration(text), zero=False)


def period() -> Reader:
    """A positive duration, or days as in ``90d``."""
    return Reader(shape="period such as `90d` or `12h`", read=read_period, show=_show_timedelta)


def _read_retention(text: str) -> Retention:
    others: timedelta | None = None
    models: dict[str, timedelta | None] = {}
    for entry in filter(None, (part.strip() for part in text.split(","))):
        model, is_named, written = entry.rpartition("=")
        period = None if written.strip() == FOR_EVER else read_period(written)
        if not is_named:
            others = period
        elif model.rpartition("/")[0]:
            models[model.strip()] = period
        else:
            raise ValueError(f'names "{model}", which is not MODEL/VERSION')
    return Retention(others, models)


def _show_period(period: timedelta | None) -> str:
    return FOR_EVER if period is None else _show_timedelta(period)


def _show_retention(value: object) -> str:
    retention = cast("Retention", value)
    named = (f"{model}={_show_period(period)}" for model, period in retention.models.items())
    return ", ".join((_show_period(retention.others), *named))


RETENTION: Reader = Reader(
    shape="period such as `90d` or `12h`, or `forever`; then, comma-separated, `MODEL/VERSION=period` of single models",
    read=_read_retention,
    show=_show_retention,
)


def seconds() -> Reader:
    """A duration; a bare whole number means seconds."""

    def read(text: str) -> timedelta:
        if text.strip().isdecimal():
            text = f"{text.strip()}s"
        return _require_positive(read_duration(text), zero=False)

    return Reader(shape="seconds, or a duration", read=read, show=_show_timedelta)


def read_duration(text: str) -> timedelta:
    """A span of time of whole microseconds, finer parts cut off. A bare number other than ``0`` is refused."""
    text = text.strip()
    if text == "0":
        return timedelta(0)
    if len(text) > 60 or not _DURATION.fullmatch(text):
        raise ValueError("is not a duration such as 300ms, 90s or 1h30m")
    parts = cast("list[tuple[str, str]]", _DURATION_PART.findall(text))  # findall is typed as list[Any]
    total = sum((Decimal(number) * _MICROSECONDS[unit] for number, unit in parts), Decimal(0))
    try:
        return timedelta(microseconds=int(total))
    except OverflowError as too_long:
        raise ValueError("is longer than any duration can be") from too_long


def show_duration(span: timedelta) -> str:
    """The shortest text that :func:`read_duration` reads back as ``span``: ``1h30m``, ``500ms``, ``0``."""
    left = span // timedelta(microseconds=1)
    text = ""
    for unit in ("h", "m", "s", "ms", "us"):
        count, left = divmod(left, int(_MICROSECONDS[unit]))
        text += f"{count}{unit}" if count else ""
    return text or "0"


def read_flag(text: str) -> bool:
    """A boolean, in the words of docs/reference/service.md#reading-values."""
    word = text.strip()
    if word not in _TRUE | _FALSE:
        raise ValueError("is not a boolean (true or false)")
    return word in _TRUE


def read_names(text: str) -> tuple[str, ...]:
    """A comma list; entries are trimmed and empty ones dropped."""
    return tuple(name for name in map(str.strip, text.split(",")) if name)


def read_level(text: str) -> str:
    """A log level in any case; ``warning`` means ``warn``."""
    word = text.strip().lower()
    if word not in _LEVELS:
        raise ValueError("is not one of debug, info, warn, error")
    return _LEVELS[word]


def read_context_path(text: str) -> str:
    """A path prefix without its trailing slashes; empty is the root."""
    path = text.strip().rstrip("/")
    if path and not re.fullmatch(r"(?:/(?!\.{1,2}(?:/|$))[A-Za-z0-9._~-]+)+", path):
        raise ValueError("is not a path such as /api")
    first = path.split("/")[1] if path else ""
    if first in _TAKEN_PATHS:
        raise ValueError(f"is not free: /{first} is another part of the service")
    return path


def read_bind_address(text: str) -> str:
    """An address or host name to listen on, IPv6 without its brackets."""
    address = text.strip().removeprefix("[").removesuffix("]")
    if not re.fullmatch(r"[A-Za-z0-9._:%-]+", address):
        raise ValueError("is not an address or a host name")
    return address


def is_loopback(address: str) -> bool:
    """Whether only this machine can reach ``address``. Host names other than ``localhost`` count as reachable."""
    if address == "localhost":
        return True
    try:
        return ip_address(address).is_loopback
    except ValueError:
        return False


def read_id(text: str) -> str:
    """The id of a tenant or a user."""
    if len(text.encode()) > MAX_ID_BYTES:
        raise ValueError(f"is longer than {MAX_ID_BYTES} bytes")
    return text


def read_pem(text: str) -> Secret:
    """PEM text: as it is, with line ends written as ``\\n``, or base64 of the whole."""
    text = text.strip()
    if not text.startswith("-----BEGIN"):
        try:
            text = base64.b64decode("".join(text.split()), validate=True).decode("ascii").strip()
        except (binascii.Error, ValueError):
            text = ""
    if not text.startswith("-----BEGIN"):
        raise ValueError("is neither PEM nor base64 of PEM")
    return Secret(text.replace("\\r", "").replace("\\n", "\n"))


def read_encryption_keys(text: str) -> Secret:
    """One or more keys of 32 bytes, as hex or base64, with commas or white space between them."""
    secret = Secret(text)
    if not split_encryption_keys(secret):
        raise ValueError("names no key")
    return secret


def split_encryption_keys(keys: Secret) -> list[bytes]:
    """The keys of :func:`read_encryption_keys`, in order. Raises ``ValueError`` for what is none."""
    return [_decode_encryption_key(word) for word in re.split(r"[\s,]+", keys.reveal()) if word]


def _decode_encryption_key(word: str) -> bytes:
    try:
        raw = (
            bytes.fromhex(word) if _HEX.fullmatch(word) else base64.b64decode(word.translate(_URL_SAFE), validate=True)
        )
    except (binascii.Error, ValueError):
        raw = b""
    if len(raw) != _ENCRYPTION_KEY_BYTES:
        raise ValueError(f"has an entry that is not {_ENCRYPTION_KEY_BYTES} bytes as hex or base64")
    return raw


def read_postgres_url(text: str) -> Secret:
    """A connection URL of PostgreSQL, which may hold a password."""
    if not re.match(r"postgres(?:ql)?://", text.strip()):
        raise ValueError("is not a URL that starts with postgres:// or postgresql://")
    return Secret(text.strip())


def read_hosts(text: str) -> tuple[str, ...]:
    """``*``, or a comma list of host names without ports, in lower case from then on."""
    hosts = tuple(name.lower() for name in read_names(text))
    for host in hosts:
        if not re.fullmatch(r"\*|[a-z0-9_-]+(\.[a-z0-9_-]+)*", host):
            raise ValueError(f"has the entry {host!r:.80}: expected a host name without a port")
    return hosts


def read_host_patterns(text: str) -> tuple[str, ...]:
    """A comma list of host names, addresses, and ``*.example.com`` for all names below one; in lower case."""
    patterns = tuple(name.lower().strip("[]") for name in read_names(text))
    for pattern in patterns:
        if not re.fullmatch(r"(\*\.)?[a-z0-9_-]+(\.[a-z0-9_-]+)*|[0-9a-f:.]*:[0-9a-f:.]*", pattern):
            raise ValueError(f"has the entry {pattern!r:.80}: expected a host name, an address or *.example.com")
    return patterns


def read_networks(text: str) -> tuple[IPv4Network | IPv6Network, ...]:
    """A comma list of networks in CIDR notation; an address alone is a network of one."""
    networks: list[IPv4Network | IPv6Network] = []
    for name in read_names(text):
        try:
            networks.append(ip_network(name))
        except ValueError:
            raise ValueError(f"has the entry {name!r:.80}: expected a network such as 10.20.0.0/16") from None
    return tuple(networks)


def read_port_ranges(text: str) -> tuple[tuple[int, int], ...]:
    """A comma list of ports and ranges of ports."""
    ranges: list[tuple[int, int]] = []
    for entry in read_names(text):
        first, _, last = entry.partition("-")
        if not (first.isdecimal() and (last or first).isdecimal() and 1 <= int(first) <= int(last or first) <= 65535):
            raise ValueError(f"has the entry {entry!r:.80}: expected a port such as 443, or a range such as 8000-8999")
        ranges.append((int(first), int(last or first)))
    if not ranges:
        raise ValueError("names no port")
    return tuple(ranges)


def read_origins(text: str) -> tuple[str, ...]:
    """``*`` alone, or a comma list of origins exactly as browsers send them (docs/reference/service.md#cors)."""
    if not text.strip():
        return ()
    if text.strip() == "*":
        return ("*",)
    origins = tuple(map(str.strip, text.split(",")))
    for origin in origins:
        problem = _find_origin_problem(origin)
        if problem is not None:
            raise ValueError(f"has the entry {origin!r:.80}: {problem}")
    return origins


def read_public_url(text: str) -> str:
    """The address of the service in browsers: https, or http of this machine alone."""
    url = text.strip().rstrip("/")
    if not url:
        return ""
    problem = _find_origin_problem(url)
    if problem is not None:
        raise ValueError(f"is no address of a service: {problem}")
    host = urlsplit(url).hostname or ""
    if url.startswith("http://") and not is_loopback(host):
        raise ValueError("is not https: a login over plain http could be read by others")
    return url


def read_pairs(text: str) -> tuple[tuple[str, str], ...]:
    """A comma list of ``name=value``, in which no name occurs twice."""
    pairs = [entry.partition("=") for entry in read_names(text)]
    for name, equals, value in pairs:
        if not name.strip() or not equals or not value.strip():
            raise ValueError("has an entry that is not NAME=VALUE")
    names = [name.strip() for name, _, _ in pairs]
    if len(set(names)) < len(names):
        raise ValueError("has a name twice")
    return tuple((name.strip(), value.strip()) for name, _, value in pairs)


def read_secret_pairs(text: str) -> Secret:
    """The same, where the values are not to be shown; entries may stand on lines of their own."""
    secret = Secret(",".join(text.splitlines()))
    read_pairs(secret.reveal())
    return secret


def _show_pairs(value: object) -> str:
    return ",".join(f"{name}={each}" for name, each in cast("Sequence[tuple[str, str]]", value))  # likewise


def _find_origin_problem(origin: str) -> str | None:
    """Why a browser never sends this origin; ``None`` if it may."""
    if not origin:
        return "entries must not be empty"
    if "*" in origin:
        return "* must stand alone"
    match = _ORIGIN.fullmatch(origin)
    if match is None:
        return "expected http:// or https://, a lower-case ASCII host and at most a port, nothing after it"
    scheme, host, port = match["scheme"], match["host"], match["port"]
    if port == _DEFAULT_PORTS[scheme]:
        return "the default port must be left out"
    if port is not None and int(port) > 65535:
        return "the port is above 65535"
    return _find_host_problem(host)


def _find_host_problem(host: str) -> str | None:
    if host.startswith("["):
        try:
            address = IPv6Address(host[1:-1])
        except AddressValueError:
            return "the IPv6 address is malformed"
        return None if address.compressed == host[1:-1] else f"write the address as [{address.compressed}]"
    if host.startswith("0x"):
        return "hexadecimal addresses are not allowed"
    if any(not label for label in host.split(".")):
        return "the host has an empty label"
    return None


def _parse_integer(text: str) -> int:
    if not _INTEGER.fullmatch(text.strip()):
        raise ValueError("is not an integer")
    return int(text)


def _require_positive(span: timedelta, *, zero: bool) -> timedelta:
    if not zero and span <= timedelta(0):
        raise ValueError("must be longer than 0")
    return span


def _show_timedelta(value: object) -> str:
    return show_duration(cast("timedelta", value))  # a reader shows only what it has read


def _show_flag(value: object) -> str:
    return "true" if value else "false"


def _show_names(value: object) -> str:
    return ",".join(map(str, cast("Sequence[object]", value)))  # likewise


def _show_port_ranges(value: object) -> str:
    ranges = cast("Sequence[tuple[int, int]]", value)  # likewise
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in ranges)


FLAG: Final = Reader(shape="boolean", read=read_flag, show=_show_flag)
NAMES: Final = Reader(shape="comma list", read=read_names, show=_show_names, keeps_empty=True)
TEXT: Final = Reader(shape="text", read=str, keeps_empty=True)
LEVEL: Final = Reader(shape="`debug` | `info` | `warn` | `error`, in any case", read=read_level)
CONTEXT_PATH: Final = Reader(shape="path", read=read_context_path, keeps_empty=True)
ADDRESS: Final = Reader(shape="address or host name", read=read_bind_address)
HOSTS: Final = Reader(shape="comma list of host names, or `*`", read=read_hosts, show=_show_names, keeps_empty=True)
ORIGINS: Final = Reader(shape="comma list of origins, or `*`", read=read_origins, show=_show_names, keeps_empty=True)
PUBLIC_URL: Final = Reader(
    shape="`https://` and a host, with a port if need be; `http://` for this machine alone",
    read=read_public_url,
    keeps_empty=True,
)
PAIRS: Final = Reader(shape="comma list of `NAME=VALUE`", read=read_pairs, show=_show_pairs, keeps_empty=True)
SECRET_PAIRS: Final = Reader(
    shape="secret: comma list of `NAME=VALUE`, or one on each line", read=read_secret_pairs, is_secret=True
)
PORT: Final = integer(0, 65535)
PATH: Final = Reader(shape="path", read=Path)
ID: Final = Reader(shape=f"text of at most {MAX_ID_BYTES} bytes", read=read_id, keeps_empty=True)
SECRET: Final = Reader(shape="secret", read=Secret, is_secret=True)
KEY: Final = Reader(shape="secret: hex, or any bytes", read=Secret, is_secret=True, takes_bytes=True)
ENCRYPTION_KEYS: Final = Reader(
    shape="secret: 32 bytes as hex or base64; several with commas between them",
    read=read_encryption_keys,
    is_secret=True,
)
PEM: Final = Reader(shape="secret: PEM, or base64 of PEM", read=read_pem, is_secret=True)
POSTGRES_URL: Final = Reader(shape="secret: postgres:// URL", read=read_postgres_url, is_secret=True)
NETWORKS: Final = Reader(
    shape="comma list of networks such as `10.20.0.0/16`", read=read_networks, show=_show_names, keeps_empty=True
)
HOST_PATTERNS: Final = Reader(
    shape="comma list of host names, addresses or `*.example.com`",
    read=read_host_patterns,
    show=_show_names,
    keeps_empty=True,
)
PORT_RANGES: Final = Reader(
    shape="comma list of ports and ranges of them", read=read_port_ranges, show=_show_port_ranges
)
