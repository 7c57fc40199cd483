"""Pictures to look at before a release: ``make pictures`` fills ``build/pictures``.

``make pictures OF="home task"`` makes those of two scenes, ``OF=pages`` those of every page there is.
"""

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.browser.conftest import OpenTab, start_installation
from tests.browser.installation import Installation
from tests.browser.scenes import SCENES, Scene, fill_scenes, settle
from tests.browser.tab import Tab
from tests.browser.test_routes import iterate_addresses

DIRECTORY = os.environ.get("STATEWRIGHT_TEST_PICTURES", "")
NAMES = os.environ.get("STATEWRIGHT_TEST_PICTURES_OF", "").replace(",", " ").split()
SETTINGS: Mapping[str, Mapping[str, str]] = {
    "reader": {"IAM_MOCK_ROLES": "ROLE_READ_ONLY"},
}
"""Further programs on the data of the filled installation, by what scenes call them."""

pytestmark = pytest.mark.skipif(not DIRECTORY, reason="STATEWRIGHT_TEST_PICTURES names no directory")
looks = pytest.mark.parametrize(("width", "dark"), [(1440, False), (1440, True), (390, False), (390, True)])


def list_scenes() -> dict[str, Scene]:
    """The scenes that were asked for; without names all. Raises ``KeyError`` for a name that is none."""
    return {name: SCENES[name] for name in NAMES if name != "pages"} if NAMES else dict(SCENES)


@pytest.fixture(scope="module")
def ids(console: Installation) -> Mapping[str, str]:
    """The filled installation has what scenes show."""
    return fill_scenes(console)


@pytest.fixture(scope="module")
def installations(
    console: Installation,
    empty_console: Installation,
    databases: list[str],
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Mapping[str, Installation]]:
    """Every installation that a scene may be of; those with settings of their own only where one is needed."""
    wanted = {scene.of for scene in list_scenes().values()}
    with ExitStack() as stack:
        more = {
            name: stack.enter_context(
                start_installation(databases[0], tmp_path_factory.mktemp(name), settings=settings)
            )
            for name, settings in SETTINGS.items()
            if name in wanted
        }
        yield {"filled": console, "empty": empty_console} | more


def take_picture(tab: Tab, name: str, width: int, dark: bool) -> None:
    settle(tab)
    path = Path(DIRECTORY, f"{name}-{width}-{'dark' if dark else 'light'}.png")
    tab.page.screenshot(path=path, full_page=True)


@looks
def test_scenes(
    open_tab: OpenTab,
    console: Installation,
    installations: Mapping[str, Installation],
    ids: Mapping[str, str],
    width: int,
    dark: bool,
):
    for name, scene in list_scenes().items():
        tab = open_tab(installations[scene.of], width=width, dark=dark)
        tab.expect(*scene.expected)
        tab.open(scene.path(console, ids))
        scene.prepare(tab)
        take_picture(tab, name, width, dark)
        tab.close()


@pytest.mark.skipif("pages" not in NAMES, reason='OF="pages" was not asked for')
@looks
def test_every_page(open_tab: OpenTab, console: Installation, width: int, dark: bool):
    tab = open_tab(console, width=width, dark=dark)
    for path in iterate_addresses(console):
        tab.open(path)
        name = re.sub(r"[^a-z0-9]+", "-", path.removeprefix("/console").lower()).strip("-")[:60] or "home"
        take_picture(tab, f"page-{name}", width, dark)


def test_the_picture_of_the_readme(open_tab: OpenTab, console: Installation, ids: Mapping[str, str]):
    tab = open_tab(console)
    tab.open(f"/console/entities/{ids['claim']}")
    settle(tab)
    tab.page.screenshot(path=Path(DIRECTORY, "console.png"))  # docs/images/console.png
