"""Pictures of every page, to look at before a release: ``make pictures`` fills ``build/pictures``."""

import os
import re
from pathlib import Path

import pytest

from tests.browser.conftest import OpenTab
from tests.browser.installation import Installation
from tests.browser.test_routes import iterate_addresses

DIRECTORY = os.environ.get("STATEWRIGHT_TEST_PICTURES", "")

pytestmark = pytest.mark.skipif(not DIRECTORY, reason="STATEWRIGHT_TEST_PICTURES names no directory")


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [1440, 390])
def test_pictures_of_every_page(open_tab: OpenTab, console: Installation, width: int, dark: bool):
    tab = open_tab(console, width=width, dark=dark)
    theme = "dark" if dark else "light"
    for path in iterate_addresses(console):
        tab.open(path)
        tab.page.wait_for_timeout(1_500)  # diagrams are drawn, and parts loaded
        name = re.sub(r"[^a-z0-9]+", "-", path.removeprefix("/console").lower()).strip("-")[:60] or "home"
        tab.page.screenshot(path=Path(DIRECTORY, f"{name}-{width}-{theme}.png"), full_page=True)


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_pictures_of_an_empty_installation(open_tab: OpenTab, empty_console: Installation, dark: bool):
    tab = open_tab(empty_console, dark=dark)
    tab.open("/console/")
    tab.page.screenshot(path=Path(DIRECTORY, f"empty-home-{'dark' if dark else 'light'}.png"), full_page=True)


def test_the_picture_of_the_readme(open_tab: OpenTab, console: Installation):
    tab = open_tab(console)
    tab.open(f"/console/entities/{console.orders[0]}")
    tab.page.locator("svg g.node").first.wait_for()
    tab.page.screenshot(path=Path(DIRECTORY, "console.png"))  # docs/images/console.png
