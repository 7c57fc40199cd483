"""The tasks that the console is for, with the clicks that they take from home (docs/console.md#tasks)."""

import json

import pytest

from tests.browser.installation import Installation
from tests.browser.tab import Tab
from tests.builders import a_workflow, manual

expect = pytest.importorskip("playwright.sync_api").expect


class Clicks:
    """Counts clicks; typing is none."""

    def __init__(self, tab: Tab) -> None:
        self._page = tab.page
        self.count = 0

    def link(self, name: str, within: str = "main") -> None:
        self._click(self._page.locator(within).get_by_role("link", name=name).first)

    def button(self, name: str, within: str = "main") -> None:
        self._click(self._page.locator(within).get_by_role("button", name=name, exact=True).last)

    def _click(self, target: object) -> None:
        target.click()  # type: ignore[attr-defined]
        self.count += 1


def test_an_order_is_found_by_its_id(tab: Tab, console: Installation):
    tab.open("/console/")
    tab.page.keyboard.press("/")
    tab.page.keyboard.type(console.orders[0])
    tab.page.keyboard.press("Enter")
    tab.page.wait_for_url(f"**/console/entities/{console.orders[0]}")


def test_what_stands_still_is_one_click_away(tab: Tab):
    tab.open("/console/")
    clicks = Clicks(tab)
    clicks.link("…", "table:has(caption:text('Oldest'))")
    tab.page.wait_for_url("**/console/entities/**")
    assert clicks.count == 1


def test_a_workflow_is_deployed_with_a_check(tab: Tab, console: Installation):
    console.api.a_model(a_workflow("w", A=[manual("GO", to="B")], B=[]), model="deploy/1", sample={"n": 1})
    changed = a_workflow("w", A=[manual("GO", to="B"), manual("STOP", to="B")], B=[])
    tab.open("/console/")
    clicks = Clicks(tab)
    clicks.link("deploy/1")
    clicks.link("Import workflows")
    tab.page.get_by_label("or its text").fill(json.dumps({"workflows": [changed]}))
    clicks.button("Check")
    clicks.button("Import")
    expect(tab.page.get_by_text("Done: Import workflows.")).to_be_visible()
    assert clicks.count == 4


def test_orders_in_a_state_are_searched_by_a_further_condition(tab: Tab):
    tab.open("/console/")
    clicks = Clicks(tab)
    clicks.link("order/1")
    clicks.link("NEW")
    clicks.button("Add field")
    tab.page.get_by_label("Field", exact=True).fill("$.amount")
    tab.page.get_by_label("Comparison").last.select_option("GREATER_THAN")
    tab.page.get_by_label("Value").last.fill("155")
    clicks.button("Apply")
    expect(tab.page.locator("tbody tr")).to_have_count(4)
    assert clicks.count == 4


def test_a_bad_workflow_is_stopped(tab: Tab, console: Installation):
    console.api.a_model(model="harm/1", sample={"n": 1})
    tab.open("/console/")
    clicks = Clicks(tab)
    clicks.link("harm/1")
    clicks.button("Suspend")
    tab.page.get_by_label("Reason").fill("it does damage")
    clicks.button("Suspend model", "dialog")
    expect(tab.page.get_by_text("it does damage")).to_be_visible()
    assert clicks.count == 3
