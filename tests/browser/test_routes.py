"""Every page opens, on an empty and on a filled installation, in light and dark, wide and narrow."""

import re
from collections.abc import Iterator
from urllib.parse import quote

import httpx
import pytest

from statewright.console.request import Page
from statewright.console.routes import ROUTES
from tests.browser.conftest import OpenTab
from tests.browser.installation import Installation
from tests.browser.tab import HEIGHTS
from tests.browser.work import show_worker

PAGES = [
    route for route in ROUTES if isinstance(route, Page) and not (route.is_part or route.is_file or route.is_public)
]
PARTS = [route for route in ROUTES if isinstance(route, Page) and route.is_part]


def iterate_addresses(console: Installation) -> Iterator[str]:
    """An address of every page: its parameters are those of what the installation has."""
    for page in PAGES:
        values = console.parameters | console.own_parameters.get(page.path, {})
        if "{worker}" in page.path:
            show_worker(console, values["worker"])
        yield re.sub(r"\{(\w+)\}", lambda found, values=values: quote(values[found[1]], safe=""), page.path)


@pytest.mark.parametrize(("width", "dark"), [(1440, False), (390, True)], ids=["wide-light", "narrow-dark"])
def test_every_page_opens_without_a_violation(open_tab: OpenTab, console: Installation, width: int, dark: bool):
    tab = open_tab(console, width=width, dark=dark)
    faults = {}
    for path in iterate_addresses(console):
        response = tab.open(path)
        tab.page.locator("main h1").first.wait_for()
        found = [] if response.status == 200 else [f"status {response.status}"]
        found += tab.find_violations()
        found += [f"{tab.measure_overflow()} pixels too wide"] if tab.measure_overflow() > 0 else []
        if dark:  # once is enough
            found += tab.find_losses()
            tab.page.set_viewport_size({"width": width, "height": HEIGHTS[width]})
        if found:
            faults[path] = found
    assert faults == {}


def test_every_part_opens_by_itself(console: Installation):
    statuses = {}
    with httpx.Client(base_url=console.root, timeout=30) as client:
        for part in PARTS:
            values = console.parameters | console.own_parameters.get(part.path.replace("/part/", "/", 1), {})
            path = re.sub(r"\{(\w+)\}", lambda found, values=values: quote(values[found[1]], safe=""), part.path)
            statuses[path] = client.get(path).status_code
    assert {path: status for path, status in statuses.items() if status != 200} == {}


def test_every_page_of_an_empty_installation_opens_and_names_a_next_step(
    open_tab: OpenTab, empty_console: Installation
):
    tab = open_tab(empty_console)
    for page in PAGES:
        if "{" not in page.path:
            assert tab.open(page.path).status == 200, page.path
            assert tab.page.locator("main h1").count() == 1, page.path
            for place in tab.page.locator(".empty").all():
                assert place.locator("a, button, code").count() > 0, page.path


def test_opened_sections_have_no_violation(open_tab: OpenTab, console: Installation):
    tab = open_tab(console)
    for path in ("/console/models/order/1/entities", "/console/models/order/1", "/console/"):
        tab.open(path)
        for summary in tab.page.locator("main summary").all():
            if summary.is_visible():
                summary.click()
        assert tab.find_violations() == [], path
    tab.page.keyboard.press("?")
    assert tab.find_violations() == []


def test_every_page_reads_without_a_script(open_tab: OpenTab, console: Installation):
    tab = open_tab(console, script=False)
    for path in iterate_addresses(console):
        assert tab.open(path).status == 200, path
        assert tab.page.locator("main h1").inner_text() != ""
