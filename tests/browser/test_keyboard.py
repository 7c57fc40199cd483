"""Tasks of the console by Tab, Enter, Space and Esc alone, and keys that are switched off (docs/console.md#tasks)."""

import json
from typing import Any
from uuid import uuid4

import pytest

from tests.browser.installation import Installation
from tests.browser.tab import Tab
from tests.browser.work import APPROVAL, PARCEL, a_sending, send, start, wait_for_incident
from tests.builders import a_workflow, manual

expect = pytest.importorskip("playwright.sync_api").expect

MAX_STEPS = 80
"""Presses of Tab from the beginning of the content to whatever is wanted there."""

DESCRIBE_FOCUS = """async () => {
    // The styles of a page are there when it is loaded, and nobody sees it before.
    if (document.readyState !== "complete") await new Promise((done) => addEventListener("load", done, {once: true}));
    const at = document.activeElement;
    if (!at || at === document.body) return {where: "nowhere", fault: ""};
    const box = at.getBoundingClientRect();
    const style = getComputedStyle(at);
    const isOnScreen = box.width > 0 && box.height > 0 && box.bottom > 0 && box.right > 0
        && box.top < innerHeight && box.left < innerWidth;
    const isMarked = at.closest(".diagram") || (style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 2);
    const fault = isOnScreen && isMarked ? "" : `cannot be seen: ${at.outerHTML.slice(0, 200)}`;
    return {where: at.closest("dialog") ? "dialog" : "page", fault};
}"""


class Keyboard:
    """Goes through pages without a mouse; wherever the focus comes, it has to be seen."""

    def __init__(self, tab: Tab) -> None:
        self._page = tab.page

    def go_to(self, target: Any) -> None:  # Any: Playwright may not be installed
        """Press Tab until something has the focus."""
        expect(target).to_be_visible()
        for _ in range(MAX_STEPS):
            self.press("Tab")
            if target.evaluate("element => element === document.activeElement"):
                return
        raise AssertionError(f"{target} was not reached")

    def skip_to_content(self) -> None:
        """The first thing of every page leads past the navigation."""
        expect(self._page.locator("h1")).to_be_visible()
        self.go_to(self._page.get_by_role("link", name="Skip to the content"))
        self._page.keyboard.press("Enter")
        expect(self._page.locator("main")).to_be_focused()

    def press(self, key: str) -> str:
        """Where the focus is then: on the page, in a dialog, or nowhere."""
        self._page.keyboard.press(key)
        if key != "Tab":
            return ""
        focus = self._page.evaluate(DESCRIBE_FOCUS)
        assert not focus["fault"], focus["fault"]
        return str(focus["where"])

    def type(self, text: str) -> None:
        self._page.keyboard.insert_text(text)


@pytest.fixture
def keyboard(tab: Tab) -> Keyboard:
    """That of a tab at home."""
    tab.open("/console/")
    return Keyboard(tab)


def test_an_order_is_found(tab: Tab, console: Installation, keyboard: Keyboard):
    """T1."""
    keyboard.go_to(tab.page.get_by_label("Find an id"))
    keyboard.type(console.orders[0])
    keyboard.press("Enter")
    tab.page.wait_for_url(f"**/console/entities/{console.orders[0]}")


def test_a_workflow_is_deployed(tab: Tab, console: Installation):
    """T4."""
    name = f"typed-{uuid4().hex[:8]}"
    console.api.a_model(a_workflow("w", A=[manual("GO", to="B")], B=[]), model=f"{name}/1", sample={"n": 1})
    changed = a_workflow("w", A=[manual("GO", to="B"), manual("STOP", to="B")], B=[])
    page = tab.page
    tab.open("/console/")
    keyboard = Keyboard(tab)
    keyboard.skip_to_content()
    keyboard.go_to(page.get_by_role("link", name=f"{name}/1"))
    keyboard.press("Enter")
    keyboard.skip_to_content()
    keyboard.go_to(page.get_by_role("link", name="Import workflows"))
    keyboard.press("Enter")
    keyboard.skip_to_content()
    keyboard.go_to(page.get_by_label("or its text"))
    keyboard.type(json.dumps({"workflows": [changed]}))
    keyboard.go_to(page.get_by_role("button", name="Check"))
    keyboard.press("Space")
    expect(page.get_by_role("heading", name="w is changed")).to_be_visible()
    keyboard.skip_to_content()
    keyboard.go_to(page.get_by_role("button", name="Import", exact=True))
    keyboard.press("Enter")
    expect(page.get_by_text("Done: Import workflows.")).to_be_visible()


def test_tasks_are_completed(tab: Tab, console: Installation):
    """T6."""
    root, page = console.program.api(context_path=""), tab.page
    send(root, "/v1/definitions", APPROVAL | {"id": "HR::desk"})
    for n in range(2):
        start(root, "HR::desk", f"D-{n}")
    tab.open("/console/tasks?definition=HR%3A%3Adesk")
    keyboard = Keyboard(tab)
    keyboard.skip_to_content()
    keyboard.go_to(page.locator("td.title a").first)
    keyboard.press("Enter")
    for key in ("D-0", "D-1"):
        expect(page.locator(".facts")).to_contain_text(key)
        keyboard.skip_to_content()
        keyboard.go_to(page.get_by_role("button", name="Complete"))
        keyboard.press("Space")
    expect(page.locator(".empty")).to_contain_text("No open task fits")


def test_what_failed_is_retried_in_a_dialog_that_keeps_the_focus(tab: Tab, console: Installation):
    """T7, one incident of the group."""
    api, root, page = console.api, console.program.api(context_path=""), tab.page
    api.a_model(a_sending(tags="ferry"), model="ferry/1", sample=PARCEL)
    parcel = api.create(PARCEL, model="ferry/1").id
    api.put(f"/entity/JSON/{parcel}/SEND", PARCEL)
    wait_for_incident(root, f"?entityId={parcel}")
    api.import_workflows(a_workflow("sending", NEW=[manual("SEND", to="SENT")], SENT=[]), model="ferry/1")

    tab.open("/console/incidents")
    keyboard = Keyboard(tab)
    keyboard.skip_to_content()
    keyboard.go_to(page.locator("td.title a", has_text="ferry/1"))
    keyboard.press("Enter")
    expect(page.locator("tbody tr")).to_have_count(1)
    keyboard.skip_to_content()
    retry = page.locator("tbody").get_by_role("button", name="Retry")
    keyboard.go_to(retry)
    keyboard.press("Enter")
    expect(page.locator("dialog .confirm")).to_be_visible()
    assert {keyboard.press("Tab") for _ in range(8)} <= {"dialog", "nowhere"}, "the page behind gets no focus"
    keyboard.press("Escape")
    expect(page.locator("dialog .confirm")).to_be_hidden()
    expect(retry).to_be_focused()
    keyboard.press("Space")
    keyboard.go_to(page.locator("dialog .confirm").get_by_role("button", name="Retry"))
    keyboard.press("Space")
    expect(page.locator(".empty")).to_contain_text("No open incident has this cause")
    assert api.state(parcel) == "SENT"


def test_single_keys_lead_to_pages_and_rows_and_do_nothing_once_they_are_switched_off(tab: Tab):
    page = tab.page
    tab.open("/console/models")
    page.keyboard.press("j")
    expect(page.locator("tbody a").first).to_be_focused()
    page.keyboard.press("g")
    page.keyboard.press("t")
    page.wait_for_url("**/console/tasks")
    page.keyboard.press("?")
    page.get_by_label("Single keys do something").uncheck()
    page.keyboard.press("Escape")
    for key in ("/", "j", "k", "?", "g", "m"):
        page.keyboard.press(key)
    assert page.url.endswith("/console/tasks")
    assert page.locator("dialog[open]").count() == 0
    assert page.evaluate("() => document.activeElement.closest('tr, #find')") is None
