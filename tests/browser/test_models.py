"""A model at a glance, and counts of its entities (docs/console.md#counts)."""

from playwright.sync_api import Route, expect

from statewright.console.frame import Renderer
from statewright.console.live import ModelCounts
from statewright.console.pages.model import CountsView
from statewright.console.session import Viewer
from tests.browser.installation import Installation
from tests.browser.tab import Tab
from tests.builders import a_workflow, manual


def test_the_overview_draws_workflows_with_live_counts_that_lead_to_entities(tab: Tab):
    tab.open("/console/models/order/1")
    picture = tab.page.locator("#diagram-0")
    expect(picture).to_have_attribute("data-state", "drawn")
    paid = picture.get_by_role("link", name="PAID: 5 entities", exact=False)
    expect(paid).to_be_visible()
    tab.page.get_by_text("fulfilment as a table").click()
    row = tab.page.get_by_role("row", name="PAID", exact=False).filter(has_text="SHIP")
    expect(row).to_contain_text("CANCEL → CANCELLED")
    paid.click()
    expect(tab.page.locator("table.rows tbody tr")).to_have_count(5)


def test_what_takes_long_to_count_is_asked_for_until_it_is_there(tab: Tab):
    counting = CountsView(name="order", version=1, counts=ModelCounts(is_counting=True))
    left = ["first", "second"]

    def answer(route: Route) -> None:
        if not left:
            route.continue_()
            return
        left.pop()
        html = Renderer(lambda: 0).render("parts/counts.html", view=counting, viewer=Viewer())
        route.fulfill(status=200, content_type="text/html", body=html)

    path = "/console/part/models/order/1/counts"
    tab.page.route(f"**{path}", answer)
    tab.open("/console/")
    expect(tab.page.locator(f'.part[hx-get="{path}"]')).to_contain_text("PAID 5", timeout=20_000)
    assert left == []


ASK_AGAIN = (
    "() => document.querySelectorAll('[data-live], [data-loaded]').forEach((part) => htmx.trigger(part, 'every'))"
)


def test_nothing_asks_again_while_the_page_is_paused(tab: Tab):
    tab.open("/console/")
    expect(tab.page.locator("nav .number[data-loaded]")).to_have_count(2)
    toggle = tab.page.locator("#live-toggle")
    toggle.click()
    expect(toggle).to_have_text("Paused")
    asked: list[str] = []
    tab.page.on("request", lambda request: asked.append(request.url))
    tab.page.evaluate(ASK_AGAIN)
    assert asked == []
    toggle.click()
    with tab.page.expect_request("**/console/part/incidents/count"):
        tab.page.evaluate(ASK_AGAIN)


def test_an_import_that_strands_entities_is_seen_and_taken_back(tab: Tab, console: Installation):
    api, page = console.api, tab.page
    api.a_model(a_workflow("keeping", NEW=[manual("KEEP", to="KEPT")], KEPT=[]), model="vault/1")
    box = api.create(model="vault/1")
    api.import_workflows(a_workflow("keeping", FRESH=[]), model="vault/1")
    tab.open("/console/models/vault/1/revisions")
    expect(page.locator(".notice.bad")).to_contain_text("1 entity is in a state that no active workflow has")
    expect(page.get_by_role("row", name="NEW", exact=False)).to_contain_text("in no active workflow")
    page.get_by_role("link", name="Compare with current").click()
    expect(page.locator("h1")).to_have_text("Revision 1 → 2")
    expect(page.get_by_role("row", name="initialState", exact=False)).to_contain_text("FRESH")
    page.get_by_role("link", name="All revisions").click()
    page.get_by_role("button", name="Bring back").click()
    page.get_by_label("Reason").fill("it lost the vault")
    page.locator(".confirm").get_by_role("button", name="Bring back").click()
    expect(page.locator("tbody tr").first).to_contain_text("it lost the vault")
    expect(page.locator(".notice.bad")).to_have_count(0)
    api.update(box.id, fire="KEEP")
