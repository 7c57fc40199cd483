"""Search jobs and help (docs/console.md#pages)."""

from playwright.sync_api import expect

from tests.browser.installation import Installation
from tests.browser.tab import Tab


def test_a_search_job_is_listed_with_what_it_found(tab: Tab, console: Installation):
    search = console.own_parameters["/console/searches/{id}"]["id"]
    page = tab.page
    tab.open("/console/searches")
    page.get_by_role("link", name=search).click()
    expect(page.locator("h1")).to_contain_text("parcel/1")
    expect(page.locator("tbody tr")).to_have_count(1)
    page.locator("tbody a").click()
    expect(page.locator("h1")).to_contain_text("parcel/1")


def test_a_topic_of_help_is_read_in_the_console(tab: Tab):
    page = tab.page
    tab.open("/console/")
    page.locator("nav a", has_text="Help").click()
    expect(page.locator("details", has_text="htmx.org")).to_contain_text("0BSD")
    page.get_by_role("link", name="workflows", exact=True).click()
    expect(page.locator("pre.text")).not_to_be_empty()
