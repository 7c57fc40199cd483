"""What a page function gives, and what the frame around it shows.

Diagrams as templates see them: the plan for the script of the page, and the marks that change.

Texts by lines: with numbers, and two of them compared.

How values are written: times, numbers, ids, names (docs/console.md#how-values-are-written).
"""

import unicodedata
from decimal import Decimal
from difflib import SequenceMatcher
from typing import Final, Literal
from urllib.parse import quote

from msgspec import Struct

from statewright.console.diagrams.drawing import Drawing, Marks, plan_drawing, write_marks, write_plan
from statewright.entity import ModelKey
from statewright.instants import from_rfc3339, to_datetime, to_rfc3339


class Crumb(Struct, frozen=True):
    """A step of the way from home to a page."""

    label: str
    href: str


class View(Struct, frozen=True, kw_only=True):
    """A page or part before it is rendered. ``data`` is a frozen struct: all that the template sees as ``view``."""

    title: str = ""
    data: Struct | None = None
    status: int = 200
    crumbs: tuple[Crumb, ...] = ()
    redirect: str | None = None
    """Where to go instead of showing anything."""
    template: str | None = None
    """Another template than that of the route."""
    download: "Download | None" = None
    """A file in place of a page."""
    live: tuple[str, ...] = ()
    """Topics of the event stream of the page (``live.py``)."""
    at: str | None = None
    """The instant that the page shows, where it is not now: actions are hidden then."""


class Download(Struct, frozen=True):
    """A file to keep. Its name is made of ids and of what we know, never of texts of users."""

    name: str
    body: bytes
    media_type: str = "application/json"


class Confirmation(Struct, frozen=True, kw_only=True):
    """What is asked before an action: the effect in a sentence, with names and counted numbers."""

    question: str
    details: tuple[str, ...] = ()
    back: str
    """Where *Cancel* leads."""
    needs_reason: bool = False
    """Whether the API asks why; the field ``reason`` is sent then."""
    choices: tuple["Choice", ...] = ()


class Choice(Struct, frozen=True):
    """Options of a confirmation, one of which is sent as the field ``name``; the first is preset."""

    name: str
    legend: str
    options: tuple[tuple[str, str], ...]
    """Values and what they say."""


class Problem(Struct, frozen=True, kw_only=True):
    """A failure as pages and parts show it."""

    status: int
    title: str
    detail: str = ""
    code: str = ""
    ticket: str = ""
    subject: str = ""
    """What it is about, such as the id that was not found."""
    retry: str | None = None
    """The address to try again, where that may help."""
    offers: tuple[tuple[str, str], ...] = ()
    """Links with what they do: the next steps."""


class Picture(Struct, frozen=True, kw_only=True):
    """A diagram. ``id`` is one of the page; ``plan`` and ``marks`` are JSON that the script reads."""

    id: str
    label: str
    plan: str
    marks: str = "{}"
    tier: int = 1
    left_out: int = 0


def build_picture(
    drawing: Drawing,
    marks: Marks | None = None,
    *,
    picture_id: str = "diagram",
    label: str,
    focus: int | None = None,
    is_neighbourhood: bool = False,
) -> Picture:
    """The picture of a drawing, opened at ``focus``."""
    plan = plan_drawing(drawing, focus=focus, is_neighbourhood=is_neighbourhood)
    return Picture(
        id=picture_id,
        label=label,
        plan=write_plan(plan),
        marks=write_marks(marks or Marks()),
        tier=plan.tier,
        left_out=plan.left_out,
    )


MAX_COMPARED_LINES: Final = 3_000
MAX_SHOWN_LINES: Final = 10_000
CONTEXT: Final = 3

_SIGNS: Final = {"same": " ", "added": "+", "removed": "−"}


class Line(Struct, frozen=True):
    """A line of a text. ``refs`` are the ids of the rows that it belongs to, with blanks around each."""

    number: int
    text: str
    refs: str = ""


class DiffLine(Struct, frozen=True):
    """A line of a comparison, with its numbers in both texts; 0: it is not there."""

    change: Literal["same", "added", "removed", "gap"]
    old: int
    new: int
    text: str

    @property
    def sign(self) -> str:
        """What stands before it."""
        return _SIGNS.get(self.change, "")


def number_lines(text: str, refs: dict[int, list[str]] | None = None) -> tuple[Line, ...]:
    """The lines of a text, the first ones of a very long one."""
    known = refs or {}
    return tuple(
        Line(number, line, f" {' '.join(known[number])} " if number in known else "")
        for number, line in enumerate(text.split("\n")[:MAX_SHOWN_LINES], start=1)
    )


def compare_lines(old: str, new: str) -> tuple[DiffLine, ...] | None:
    """What differs, with a few lines around it; None where the texts are too long to be compared."""
    before, after = old.split("\n"), new.split("\n")
    if max(len(before), len(after)) > MAX_COMPARED_LINES:
        return None
    found: list[DiffLine] = []
    for group in SequenceMatcher(None, before, after, autojunk=True).get_grouped_opcodes(CONTEXT):
        if found or group[0][1] > 0:
            found.append(DiffLine("gap", 0, 0, "…"))
        for kind, first, last, begin, end in group:
            if kind == "equal":
                pairs = zip(range(first, last), range(begin, end), strict=True)
                found += [DiffLine("same", i + 1, j + 1, before[i]) for i, j in pairs]
                continue
            found += [DiffLine("removed", i + 1, 0, before[i]) for i in range(first, last)]
            found += [DiffLine("added", 0, j + 1, after[j]) for j in range(begin, end)]
    return tuple(found)


THIN_SPACE: Final = "\u202f"
SHORT_ID_CHARS: Final = 4
MAX_CELL_CHARS: Final = 200

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


def format_model(model: ModelKey | None) -> str:
    """Name and version of a model; empty where there is none."""
    return f"{model.name}/{model.version}" if model is not None and model.name else ""


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
