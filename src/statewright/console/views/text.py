"""How values are written: times, numbers, ids, names (docs/console.md#how-values-are-written)."""

import unicodedata
from decimal import Decimal
from typing import Final
from urllib.parse import quote

from msgspec import Struct

from statewright.instants import from_rfc3339, to_datetime, to_rfc3339

THIN_SPACE: Final = "\u202f"
SHORT_ID_CHARS: Final = 4
MAX_CELL_CHARS: Final = 200
COUNT_BOUND: Final = 10_000

MINUTE_S: Final = 60
HOUR_S: Final = 3600
DAY_S: Final = 86_400


class Piece(Struct, frozen=True):
    """A piece of a text of others: shown as it is, or the name of a character that cannot be seen."""

    text: str
    is_chip: bool = False


def split_invisible(text: str) -> list[Piece]:
    """A text in pieces: invisible and bidirectional control characters are named, so that they change nothing."""
    pieces: list[Piece] = []
    plain: list[str] = []
    for char in text:
        if char in "\n\t" or unicodedata.category(char) not in {"Cc", "Cf", "Cs", "Co", "Zl", "Zp"}:
            plain.append(char)
            continue
        if plain:
            pieces.append(Piece("".join(plain)))
            plain = []
        pieces.append(Piece(f"U+{ord(char):04X}", is_chip=True))
    if plain:
        pieces.append(Piece("".join(plain)))
    return pieces or [Piece("empty", is_chip=True)]


def cut_text(text: str, limit: int = MAX_CELL_CHARS) -> str:
    """A text for a cell of a table."""
    return text if len(text) <= limit else f"{text[:limit]}…"


def shorten_id(text: str) -> str:
    """The first and the last characters of an id; what is a name, because it has a space, stays as it is."""
    return (
        text if len(text) <= 3 * SHORT_ID_CHARS or " " in text else f"{text[:SHORT_ID_CHARS]}…{text[-SHORT_ID_CHARS:]}"
    )


def format_count(count: int, *, is_lower_bound: bool = False) -> str:
    """A counted number with its digits in groups; one that was cut off ends in a plus."""
    grouped = f"{count:,}".replace(",", THIN_SPACE)
    return f"{grouped}+" if is_lower_bound else grouped


def format_exact(value: Decimal | int) -> str:
    """A stored number with the digits that it has."""
    return str(value) if isinstance(value, int) else format(value, "f") if abs(value.adjusted()) < 40 else str(value)


def format_bytes(size: int) -> str:
    """A size with its unit."""
    if size < 1000:
        return f"{size} B"
    for unit, step in (("kB", 1000), ("MB", 1000**2)):
        if size < step * 1000:
            return f"{size / step:.3g} {unit}"
    return f"{size / 1000**3:.3g} GB"


def format_duration(seconds: float) -> str:
    """A time span in its two largest units."""
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    whole = int(seconds)
    for limit, unit, next_unit, next_name in (
        (MINUTE_S, "s", 0, ""),
        (HOUR_S, "min", 1, "s"),
        (DAY_S, "h", MINUTE_S, "min"),
    ):
        if whole < limit:
            size = {"s": 1, "min": MINUTE_S, "h": HOUR_S}[unit]
            rest = (whole % size) // next_unit if next_unit else 0
            return f"{whole // size} {unit}" + (f" {rest} {next_name}" if rest and next_name != "s" else "")
    days, rest = divmod(whole, DAY_S)
    hours = rest // HOUR_S
    return f"{days} d" + (f" {hours} h" if hours and days < 10 else "")


class Moment(Struct, frozen=True):
    """A time as it is shown: relative under a day, else date and minute in UTC; exact in the title."""

    machine: str
    shown: str
    exact: str
    is_relative: bool


def build_moment(value: int | str | None, now: int) -> Moment | None:
    """From microseconds since 1970 or RFC 3339; None for what is no time."""
    instant = from_rfc3339(value) if isinstance(value, str) else value
    if instant is None:
        return None
    machine = to_rfc3339(instant)
    distance = (now - instant) / 1_000_000
    moment = to_datetime(instant)
    exact = f"{moment:%Y-%m-%d %H:%M:%S.%f} UTC"
    if abs(distance) >= DAY_S:
        return Moment(machine, f"{moment:%Y-%m-%d %H:%M} UTC", exact, is_relative=False)
    if abs(distance) < 1:
        return Moment(machine, "now", exact, is_relative=True)
    span = format_duration(abs(distance)).partition(" ")
    words = f"{span[0]} {span[2].split(' ')[0]}"
    return Moment(machine, f"{words} ago" if distance > 0 else f"in {words}", exact, is_relative=True)


def encode_segment(text: str) -> str:
    """A name as one segment of a path."""
    return quote(str(text), safe="")
