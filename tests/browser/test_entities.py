"""The list of entities with its condition builder (docs/console.md#pages)."""

import re

import pytest

from statewright.console.frame import Renderer
from statewright.console.pages.entities import EntityNewsView
from statewright.console.session import Viewer
from tests.browser.conftest import OpenTab
from tests.browser.installation import Installation
from tests.browser.tab import Tab

expect = pytest.importorskip("playwright.sync_api").expect

LARGE = 1234567890123456789012345678901234567890
ENTITIES = "/console/models/order/1/entities"


def test_a_condition_of_three_levels_is_built_and_opens_elsewhere(tab: Tab, console: Installation, open_tab):
    page = tab.page
    tab.open(ENTITIES)
    page.locator("summary", has_text="Condition:").first.click()
    page.get_by_role("button", name="Add group").first.click()
    page.locator('button[value="leaf:c.0"]').click()
    page.get_by_label("Field", exact=True).fill("$.amount")
    page.get_by_label("Value").fill("120.50")
    page.locator('button[value="group:c.0"]').click()
    page.locator('button[value="state:c.0.1"]').click()
    page.get_by_label("Value").last.fill("PAID")
    page.get_by_role("button", name="Apply", exact=True).last.click()
    page.locator("table.rows").wait_for()
    built = page.locator("#raw").input_value()
    assert '"value":120.50' in built
    assert built.count('"group"') == 3

    other = open_tab(console)
    other.page.goto(page.url)
    assert other.page.locator("#raw").input_value() == built
    assert other.page.locator("tbody tr").count() == page.locator("tbody tr").count() == 5


def test_back_forward_and_reload_keep_page_sort_and_condition(tab: Tab):
    page = tab.page
    tab.open(f"{ENTITIES}?size=20")
    first = page.locator("tbody tr td").first.inner_text()
    page.get_by_role("link", name="$.amount").click()
    page.get_by_role("link", name="Next").click()
    page.wait_for_url("**after=**")
    second = page.locator("tbody tr td").first.inner_text()
    page.reload()
    assert page.locator("tbody tr td").first.inner_text() == second
    page.go_back()
    assert page.locator("th[aria-sort=ascending]").inner_text().startswith("$.amount")
    page.go_back()
    assert page.locator("tbody tr td").first.inner_text() == first
    page.go_forward()
    page.go_forward()
    assert page.locator("tbody tr td").first.inner_text() == second


def test_a_typing_error_in_a_path_is_answered_with_the_nearest_one(tab: Tab):
    tab.open(f'{ENTITIES}?q={{"type":"simple","jsonPath":"$.amunt","operatorType":"EQUALS","value":1}}')
    assert "Did you mean $.amount" in tab.page.locator(".notice:not(#stale)").inner_text()


def test_hostile_text_is_text(tab: Tab):
    tab.open("/console/models/note/1/entities")
    cell = tab.page.locator("td.value").first
    assert "<script>alert(1)</script>" in cell.inner_text()
    assert "U+202E" in cell.inner_text()
    assert tab.page.locator("td script, td img").count() == 0


def test_a_second_click_creates_no_second_entity(tab: Tab, console: Installation):
    console.api.a_model(model="box/1", sample={"n": LARGE})
    page = tab.page
    tab.open("/console/models/box/1/entities/new")
    page.get_by_label("The document as JSON").fill(f'{{"n": {LARGE}}}')
    page.get_by_role("button", name="Create entity").dblclick()
    page.wait_for_url("**/entities?q=**")
    tab.open("/console/models/box/1/entities?count=1")
    assert "1 match" in page.locator(".paging").inner_text()
    assert page.locator("td.value").inner_text() == str(LARGE)


@pytest.mark.parametrize("script", [True, False], ids=["with-script", "without-script"])
def test_the_call_of_a_form_is_shown_with_what_was_typed_and_is_not_made(
    open_tab: OpenTab, console: Installation, script: bool
):
    tab = open_tab(console, script=script)
    tab.open("/console/models/invoice/2/entities/new")
    tab.page.get_by_label("The document as JSON").fill('{"text": "it\'s 0.10"}')
    tab.page.get_by_role("button", name="As curl").click()
    shown = tab.page.locator(".confirm")
    expect(shown).to_contain_text("curl -X POST")
    expect(shown).to_contain_text(f"{console.root}/api/entity/JSON/invoice/2")
    expect(shown).to_contain_text("0.10")
    assert tab.find_violations() == [] if script else True
    shown.get_by_role("link", name="Close").click()
    if script:
        expect(tab.page.get_by_label("The document as JSON")).to_have_value('{"text": "it\'s 0.10"}')


def test_without_a_script_a_condition_is_built_and_applied(open_tab, console: Installation):
    tab = open_tab(console, script=False)
    tab.open(f"{ENTITIES}?state=PAID")
    assert tab.page.locator("tbody tr").count() == 5
    assert "UTC" in tab.page.locator("tbody time").first.get_attribute("title")
    tab.page.get_by_role("button", name="Add field").click()
    tab.page.get_by_label("Field", exact=True).fill("$.customer")
    tab.page.get_by_label("Value").last.fill("Nobody")
    tab.page.get_by_role("button", name="Apply", exact=True).last.click()
    assert "No entity of order/1 matches" in tab.page.locator(".empty").inner_text()


def test_a_list_is_run_as_a_search_job(tab: Tab):
    tab.open("/console/models/order/1/entities?state=PAID")
    tab.page.get_by_role("button", name="Run as search job", exact=True).click()
    tab.page.wait_for_url("**/console/searches/*")
    expect(tab.page.locator("main")).to_contain_text("PAID")


def test_further_entities_are_announced_and_rows_stay(tab: Tab):
    news = EntityNewsView(more=3, since=60, again="/console/part/models/order/1/entities/news?since=60")
    html = Renderer(lambda: 0).render("parts/entity_news.html", view=news, viewer=Viewer())
    tab.page.route("**/entities/news*", lambda route: route.fulfill(status=200, content_type="text/html", body=html))
    tab.open("/console/models/order/1/entities?size=20")
    expect(tab.page.get_by_role("status").filter(has_text="3 new, show")).to_be_visible()
    expect(tab.page.locator("table.rows tbody tr")).to_have_count(20)
    tab.page.unroute("**/entities/news*")
    tab.page.get_by_role("link", name="show", exact=True).click()
    expect(tab.page).to_have_url(re.compile(r"entities\?size=20$"))
    expect(tab.page.locator("[id^=news-]")).to_have_count(1)
    announced = tab.page.get_by_role("status").filter(has_text="3 new")
    expect(announced).to_have_count(0)  # rows, too, may say so: an id that ends in 3, and then NEW
