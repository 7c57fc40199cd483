"""Help: the pages of ``GET /help``, the keys, and what others wrote (docs/console.md#pages)."""

import asyncio
import tomllib
from functools import cache
from typing import Final

from msgspec import Struct, convert, field
from msgspec.structs import replace

from statewright.console.calls import Reply, build_entity_call
from statewright.console.request import Navigation, Page, PageContext, Routes
from statewright.console.response import ROOT as STATIC
from statewright.console.views.page import Crumb, View
from statewright.operations.records import Record

ROOT: Final = "/console/help"

KEYS: Final = (
    ("/", "find"),
    ("g h", "home"),
    ("g m", "models"),
    ("g t", "tasks"),
    ("g i", "incidents"),
    ("j, k", "next and previous row"),
    ("Enter", "open"),
    ("Esc", "close"),
    ("?", "the list of keys, where they can be switched off"),
)


class HelpTopic(Record, frozen=True, kw_only=True):
    """A page of help, as text, and those beside and below it."""

    topic: str = ""
    title: str = ""
    synopsis: str = ""
    body: str = ""
    children: tuple[str, ...] = ()
    see_also: tuple[str, ...] = field(name="see_also", default=())

    @property
    def related(self) -> tuple[str, ...]:
        """Each of the others once."""
        return tuple(dict.fromkeys((*self.children, *self.see_also)))


class HelpTopics(Record, frozen=True, kw_only=True):
    """All pages of help of a version."""

    version: str = ""
    topics: tuple[HelpTopic, ...] = ()


class Vendored(Struct, frozen=True, kw_only=True):
    """What somebody else wrote, and its licence with its text; ``component``: what others put into it."""

    name: str
    version: str
    licence: str
    licence_text: str
    component: tuple["Vendored", ...] = ()
    text: str = ""


class VendorTable(Struct, frozen=True, kw_only=True):
    """The table beside their files."""

    archive: tuple[Vendored, ...]


class HelpView(Struct, frozen=True, kw_only=True):
    """All pages of help, the keys, and what others wrote."""

    told: HelpTopics
    keys: tuple[tuple[str, str], ...]
    vendored: tuple[Vendored, ...]


async def show_help(request: PageContext) -> View:
    """All pages of help."""
    [found] = await request.call(build_entity_call("help"))
    return view_help(found.require(), await asyncio.to_thread(load_vendored))


def view_help(found: Reply, vendored: tuple[Vendored, ...]) -> View:
    """The list from the answer of the API."""
    return View(title="Help", data=HelpView(told=found.pick(HelpTopics), keys=KEYS, vendored=vendored))


@cache
def load_vendored() -> tuple[Vendored, ...]:
    """What others wrote, from the table beside their files."""
    directory = STATIC / "vendor"
    table = convert(tomllib.loads((directory / "vendor.toml").read_text()), VendorTable)
    parts = [part for archive in table.archive for part in (archive, *archive.component)]
    return tuple(replace(part, text=(directory / part.licence_text).read_text()) for part in parts)


async def show_topic(request: PageContext) -> View:
    """One page of help."""
    [found] = await request.call(build_entity_call("help", request.params["topic"]))
    return view_topic(found.require())


def view_topic(found: Reply) -> View:
    """One page from the answer of the API."""
    data = found.pick(HelpTopic)
    return View(title=data.title, data=data, crumbs=(Crumb("Help", ROOT),))


ROUTES: Final[Routes] = (
    Page(name="help", path=ROOT, show=show_help, navigation=Navigation("System", "Help")),
    Page(name="help_topic", path=f"{ROOT}/{{topic}}", show=show_topic),
)
