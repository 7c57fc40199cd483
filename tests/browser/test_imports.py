"""Importing workflows with a check first, and finding (docs/console.md#pages)."""

import json

import pytest

from tests.browser.installation import Installation
from tests.browser.tab import Tab
from tests.browser.test_workflows import wait_for_diagram
from tests.builders import a_workflow, manual

expect = pytest.importorskip("playwright.sync_api").expect

BEFORE = a_workflow("handling", OPEN=[manual("CLOSE", to="CLOSED")], CLOSED=[])
AFTER = a_workflow("handling", OPEN=[manual("CLOSE", to="CLOSED"), manual("HOLD", to="HELD")], CLOSED=[], HELD=[])


def test_an_import_is_checked_then_made(tab: Tab, console: Installation):
    console.api.a_model(BEFORE, model="ticket/1", sample={"n": 1})
    console.api.create({"n": 1}, model="ticket/1")
    page = tab.page
    tab.open("/console/models/ticket/1")
    page.get_by_role("link", name="Import workflows").click()
    page.get_by_label("or its text").fill(json.dumps({"workflows": [AFTER]}))
    page.get_by_role("button", name="Check").click()
    expect(page.get_by_role("heading", name="handling is changed")).to_be_visible()
    assert "HOLD" in page.locator("ul.changes").inner_text()
    assert page.locator("tr", has_text="OPEN").locator("td.number").inner_text() == "1"
    assert "HOLD" not in console.api.get("/model/ticket/1/workflow/export").text
    warned = page.get_by_label("I have read the warnings.")
    if warned.count():
        warned.check()
    page.get_by_label("Note, kept").fill("für alle")
    page.get_by_role("button", name="Import", exact=True).click()
    expect(page.get_by_text("Done: Import workflows.")).to_be_visible()
    tab.open("/console/models/ticket/1/revisions")
    expect(page.locator("tbody tr").first).to_contain_text("für alle")
    assert "HOLD" in console.api.get("/model/ticket/1/workflow/export").text
    tab.open("/console/models/ticket/1/workflows/handling")
    wait_for_diagram(tab)
    assert page.locator("g.node", has_text="HELD").count() == 1


def test_an_import_with_errors_cannot_be_made(tab: Tab):
    broken = {
        "version": "1.3",
        "name": "x",
        "initialState": "A",
        "states": {"A": {"transitions": [manual("GO", to="B")]}},
    }
    page = tab.page
    tab.open("/console/models/order/1/import")
    page.get_by_label("or its text").fill(json.dumps({"workflows": [broken]}))
    page.get_by_role("button", name="Check").click()
    expect(page.get_by_text("It cannot be imported")).to_be_visible()
    assert page.get_by_role("button", name="Import", exact=True).count() == 0
    assert tab.find_violations() == []


def test_the_name_of_a_model_is_found_by_the_keyboard(tab: Tab, console: Installation):
    page = tab.page
    tab.open("/console/")
    page.locator("main h1").wait_for()
    page.keyboard.press("/")
    page.keyboard.type("invoice")
    page.keyboard.press("Enter")
    page.wait_for_url("**/console/models/invoice/2")
    tab.expect("404")
    tab.open("/console/find?q=nobody-knows")
    assert "Nothing is called nobody-knows" in page.locator(".empty").inner_text()


def test_a_model_is_suspended_and_resumed(tab: Tab, console: Installation):
    console.api.a_model(BEFORE, model="claim/1", sample={"n": 1})
    saved = console.api.create({"n": 1}, model="claim/1")
    page = tab.page
    tab.open("/console/models/claim/1")
    suspend = page.get_by_role("button", name="Suspend", exact=True)
    suspend.click()
    expect(page.locator("dialog .confirm")).to_contain_text("1 entities")
    assert tab.find_violations() == []
    page.keyboard.press("Escape")
    expect(suspend).to_be_focused()
    suspend.click()
    page.get_by_label("Reason").fill("bad workflow")
    page.get_by_role("button", name="Suspend model").click()
    expect(page.get_by_text("bad workflow")).to_be_visible()
    assert console.api.put(f"/entity/JSON/{saved.id}/CLOSE", {"n": 1}).status_code == 409
    page.get_by_role("button", name="Resume", exact=True).click()
    page.get_by_label("Reason").fill("mended")
    page.get_by_role("button", name="Resume model").click()
    expect(page.get_by_text("Done: Resume model.")).to_be_visible()
    assert console.api.put(f"/entity/JSON/{saved.id}/CLOSE", {"n": 1}).status_code == 200
