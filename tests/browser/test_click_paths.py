"""The tasks that the console is for, with the clicks that they take from home (docs/console.md#tasks)."""

import json

import pytest

from tests.browser.installation import ORDER, Installation
from tests.browser.tab import Tab
from tests.browser.work import APPROVAL, PARCEL, a_sending, send, start, wait_for_incident
from tests.builders import a_workflow, manual

expect = pytest.importorskip("playwright.sync_api").expect


class Clicks:
    """Counts clicks; typing is none, and so is the key that ends it."""

    def __init__(self, tab: Tab) -> None:
        self._page = tab.page
        self.count = 0

    def link(self, name: str, within: str = "main") -> None:
        self._click(self._page.locator(within).get_by_role("link", name=name).first)

    def button(self, name: str, within: str = "main") -> None:
        self._click(self._page.locator(within).get_by_role("button", name=name, exact=True).last)

    def find(self, text: str) -> None:
        """What is typed after ``/``."""
        self._page.keyboard.press("/")
        self._page.keyboard.type(text)
        self._page.keyboard.press("Enter")

    def _click(self, target: object) -> None:
        target.click()  # type: ignore[attr-defined]
        self.count += 1


@pytest.fixture
def clicks(tab: Tab) -> Clicks:
    """None yet, at home."""
    tab.open("/console/")
    return Clicks(tab)


def test_an_order_is_found_by_its_id(tab: Tab, console: Installation, clicks: Clicks):
    """T1."""
    clicks.find(console.orders[0])
    tab.page.wait_for_url(f"**/console/entities/{console.orders[0]}")
    expect(tab.page.get_by_role("heading", name="Why is it here")).to_be_visible()
    assert clicks.count <= 1


def test_what_stands_still_is_one_click_away(tab: Tab, clicks: Clicks):
    """T2."""
    clicks.link("…", "table:has(caption:text('Oldest'))")
    tab.page.wait_for_url("**/console/entities/**")
    assert clicks.count == 1


def test_an_entity_is_compared_with_yesterday(tab: Tab, console: Installation, clicks: Clicks):
    """T3: what it was a day ago, whenever it was written."""
    order = str(console.api.create(ORDER | {"customer": "long ago"}, model="sale/1").id)
    console.date_back(order, days=2)
    console.api.update(order, ORDER | {"customer": "today"})
    clicks.find(order)
    clicks.link("Versions")
    clicks.link("Compare with yesterday")
    row = tab.page.locator(".differences tbody tr")
    expect(row).to_have_count(1)
    expect(row).to_contain_text("long ago")
    expect(row).to_contain_text("today")
    assert clicks.count == 2


def test_a_workflow_is_deployed_with_a_check(tab: Tab, console: Installation):
    """T4."""
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


def test_which_worker_is_missing_is_one_click_away(tab: Tab, clicks: Clicks):
    """T5."""
    clicks.link("payment", ".alerts")
    alert = tab.page.locator(".notice.bad")
    expect(tab.page.locator("h1")).to_have_text("Job type payment")
    expect(alert).to_contain_text("«payment»: 1 waits, the oldest for")
    expect(alert).to_contain_text("no worker")
    expect(tab.page.locator("section", has_text="Workers that serve it")).to_contain_text("Nobody has polled")
    assert clicks.count == 1


def test_tasks_are_completed_with_one_click_each(tab: Tab, console: Installation):
    """T6: the first of them in three clicks."""
    root = console.program.api(context_path="")
    send(root, "/v1/definitions", APPROVAL | {"id": "HR::trip"})
    for n in range(2):
        start(root, "HR::trip", f"T-{n}")
    tab.open("/console/")
    clicks = Clicks(tab)
    clicks.link("Tasks", "nav.side")
    tab.page.get_by_label("Definition").fill("HR::trip")
    tab.page.keyboard.press("Enter")
    expect(tab.page.locator("tbody tr")).to_have_count(2)
    clicks.link("approve", "td.title")
    expect(tab.page.locator(".facts")).to_contain_text("T-0")
    clicks.button("Complete")
    expect(tab.page.locator(".facts")).to_contain_text("T-1")
    assert clicks.count == 3
    clicks.button("Complete")
    expect(tab.page.locator(".empty")).to_be_visible()
    assert clicks.count == 4


def test_what_failed_by_one_cause_is_retried_from_its_page(tab: Tab, console: Installation):
    """T7, as far as there is a call for it: a group is retried as a bulk job, of which there is none yet. So the first
    of it takes the four clicks that the whole may take, and each further one two.
    """
    api, root = console.api, console.program.api(context_path="")
    api.a_model(a_sending(tags="tow-truck"), model="tow/1", sample=PARCEL)
    cars = [api.create(PARCEL, model="tow/1").id for _ in range(2)]
    for car in cars:
        api.put(f"/entity/JSON/{car}/SEND", PARCEL)
        wait_for_incident(root, f"?entityId={car}")
    api.import_workflows(a_workflow("sending", NEW=[manual("SEND", to="SENT")], SENT=[]), model="tow/1")

    tab.open("/console/")
    clicks = Clicks(tab)
    clicks.link("Incidents", "nav.side")
    clicks.link("tow/1")
    expect(tab.page.locator("tbody tr")).to_have_count(2)
    clicks.button("Retry")
    clicks.button("Retry", "dialog")
    expect(tab.page.locator("tbody tr")).to_have_count(1)
    assert clicks.count == 4
    clicks.button("Retry")
    clicks.button("Retry", "dialog")
    expect(tab.page.locator(".empty")).to_contain_text("No open incident has this cause")
    assert clicks.count == 6
    assert [api.state(car) for car in cars] == ["SENT", "SENT"]


def test_orders_in_a_state_are_searched_by_a_further_condition(tab: Tab, clicks: Clicks):
    """T8."""
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
    """T9."""
    console.api.a_model(model="harm/1", sample={"n": 1})
    tab.open("/console/")
    clicks = Clicks(tab)
    clicks.link("harm/1")
    clicks.button("Suspend")
    tab.page.get_by_label("Reason").fill("it does damage")
    clicks.button("Suspend model", "dialog")
    expect(tab.page.get_by_text("it does damage")).to_be_visible()
    assert clicks.count == 3


def test_a_wrong_edit_is_undone(tab: Tab, console: Installation, clicks: Clicks):
    """T10."""
    order = str(console.api.create(ORDER | {"customer": "right"}, model="sale/1").id)
    console.api.update(order, ORDER | {"customer": "wrong"})
    clicks.find(order)
    clicks.link("Versions")
    clicks.button("Restore this version")
    tab.page.get_by_label("Reason").fill("wrong edit")
    clicks.button("Restore", "dialog")
    expect(tab.page.get_by_text("Done: Restore")).to_be_visible()
    assert clicks.count <= 4
    assert console.api.read(order)["data"]["customer"] == "right"
