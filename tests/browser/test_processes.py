"""Pages of processes: definitions in three languages, and their instances (docs/console.md#pages)."""

from urllib.parse import quote

import pytest

from tests.browser.conftest import OpenTab
from tests.browser.installation import HOSTILE, ONBOARDING, Installation, store
from tests.browser.tab import Tab
from tests.browser.test_workflows import ALLOWED, list_elements, wait_for_diagram
from tests.builders import Json


def start(console: Installation, route: str = "/instances", /, **body: Json) -> str:
    """The id of a new instance."""
    return str(store(console.processes, route, body)["id"])


def open_instance(tab: Tab, instance: str) -> None:
    """Its page, with the diagram drawn where there can be one."""
    tab.open(f"/console/instances/{instance}")
    wait_for_diagram(tab)


def test_tokens_move_on_and_a_join_says_which_branch_lacks(tab: Tab, console: Installation):
    instance = start(console, definitionId="HR::onboarding", variables={"amount": 1})
    page = tab.page
    open_instance(tab, instance)
    page.locator("g.node.active", has_text="Ask the boss").wait_for()
    before = page.get_by_label("As it was at").input_value()
    assert tab.context.request.get(str(page.locator(".waits a[href*=tasks]").get_attribute("href"))).ok
    page.locator("summary", has_text="Complete this task").click()
    page.get_by_label("Variables as JSON").first.fill('{"approved": true}')
    page.get_by_role("button", name="Complete", exact=True).click()
    page.get_by_text("the other branches; 1 have come, branch 2 is at mail").wait_for()
    wait_for_diagram(tab)
    page.locator("g.node.done", has_text="Ask the boss").wait_for()
    page.get_by_role("row", name="approved true ask").wait_for()

    store(console.processes, f"/instances/{instance}/signals/mail", {"letter": 7})  # somebody else: no reload
    page.locator("g.node.active", has_text="Open an account").wait_for()
    page.get_by_text("waits for a worker").wait_for()
    page.locator(".badge.bad", has_text="no worker").wait_for()
    assert (
        page.get_by_role("link", name="create-account").get_attribute("href")
        == "/console/queues/JOB_TYPE/create-account"
    )

    page.get_by_label("As it was at").fill(before)
    page.get_by_role("button", name="Show", exact=True).click()
    page.get_by_text("As it was on").wait_for()
    wait_for_diagram(tab)
    assert page.locator("g.node.active", has_text="Ask the boss").count() == 1
    assert "Open an account" not in page.locator(".waits").inner_text()
    assert "approved" not in page.locator("main").inner_text()
    assert page.locator("main form[method=post], main form[data-dialog]").count() == 0


def test_a_cancellation_says_what_it_withdraws(tab: Tab, console: Installation):
    instance = start(console, definitionId="HR::onboarding")
    page = tab.page
    open_instance(tab, instance)
    page.get_by_role("button", name="Cancel", exact=True).click()
    page.get_by_text("1 task, 1 wait for a signal and 1 timer are withdrawn.").wait_for()
    page.get_by_label("Reason").fill("not needed")
    page.get_by_role("button", name="Cancel instance").click()
    page.wait_for_url("**/console/instances/*")
    page.locator(".standing .badge.off", has_text="cancelled").wait_for()
    assert page.get_by_role("button", name="Cancel", exact=True).count() == 0


def test_a_failed_instance_is_retried_with_another_variable(tab: Tab, console: Installation):
    instance = start(console, definitionId="fee")
    page = tab.page
    open_instance(tab, instance)
    assert page.get_by_text('undefined variable "amount"').first.is_visible()
    assert page.locator("g.node.failed", has_text="Fee").count() == 1
    page.get_by_label("Variables to change").fill('{"amount": 0.10}')
    page.get_by_role("button", name="Retry fee").click()
    page.locator(".standing .badge.ok", has_text="completed").wait_for()
    assert page.get_by_role("row", name="amount 0.10 the start or a retry").is_visible()


@pytest.fixture(scope="module", autouse=True)
def definitions(console: Installation) -> None:
    """One more definition, which fails without a variable, and one whose second version differs."""
    steps = [step for step in ONBOARDING["steps"] if step["id"] in ("fee", "end")]
    store(console.processes, "/definitions", {"id": "fee", "name": "Fee", "steps": steps})
    first = [{"id": "end", "name": "End", "type": "END"}]
    store(console.processes, "/definitions", {"id": "two", "name": "Two", "steps": first})
    wait = {"id": "rest", "name": "Rest", "type": "WAIT", "nextStep": "end"}
    store(console.processes, "/definitions", {"id": "two", "name": "Two", "steps": [wait, *first]})


def test_a_denied_token_waits_until_the_context_lets_it_go(tab: Tab, console: Installation):
    instance = start(console, "/executions", path="import-orders")
    page = tab.page
    open_instance(tab, instance)
    page.get_by_text("a token waits for admission; denied: admits tokens when ctx.approved == true").wait_for()
    page.locator("g.node.denied").get_by_text("○").wait_for()
    page.get_by_label("Members as JSON").fill('{"approved": true}')
    page.get_by_role("button", name="Change", exact=True).click()
    page.locator(".standing .badge.ok").first.wait_for()
    wait_for_diagram(tab)
    assert page.locator("g.node.done", has_text="gate").count() == 1


def test_pointing_at_a_node_marks_its_lines(tab: Tab):
    tab.open("/console/playbooks/import-orders")
    wait_for_diagram(tab)
    tab.page.locator("g.node.transition", has_text="gate").locator("a").hover()
    marked = tab.page.locator(".lines li.pointed")
    marked.first.wait_for()
    assert "- step: gate" in marked.first.inner_text()
    assert marked.count() == 3


def test_a_text_is_checked_before_it_is_stored(tab: Tab, console: Installation):
    page = tab.page
    tab.expect("status of 400")
    tab.open("/console/definitions/new?language=flow&of=orders")
    page.get_by_label("Text of the flow").fill("@flow orders\nload → (")
    page.get_by_role("button", name="Check").click()
    page.get_by_role("heading", name="It cannot be stored").wait_for()
    assert page.get_by_text("line 2, column").is_visible()
    page.get_by_label("Text of the flow").fill("@flow orders\nload → keep")
    page.get_by_role("button", name="Check").click()
    page.get_by_text("Nothing was stored yet.").wait_for()
    assert page.locator(".diff-lines .removed").inner_text().endswith("load → [charge | pack] → ship")
    assert console.processes.get("/flows/definitions/orders").json()["version"] == 1


def test_two_versions_are_compared(tab: Tab):
    tab.open("/console/definitions/two")
    tab.page.get_by_role("button", name="Compare").click()
    wait_for_diagram(tab)
    assert tab.page.locator(".changes").inner_text().strip().endswith("Step rest is new: wait.")
    assert tab.page.locator("g.node.added", has_text="Rest").count() == 1
    assert '"id": "rest"' in tab.page.locator(".diff-lines").inner_text()


def test_the_list_has_all_languages_and_keeps_its_filters(tab: Tab, open_tab: OpenTab, console: Installation):
    start(console, "/flows/instances", definitionId="orders", businessKey="F-77")
    page = tab.page
    tab.open("/console/instances")
    assert {"steps", "flow"} <= set(page.locator("tbody .language").all_inner_texts())
    page.get_by_label("Business key").fill("F-77")
    page.get_by_role("button", name="Apply").click()
    assert page.locator("tbody tr").count() == 1
    other = open_tab(console)
    other.page.goto(page.url)
    assert other.page.locator("tbody tr").count() == 1


def test_an_instance_is_started_without_a_script(open_tab: OpenTab, console: Installation):
    tab = open_tab(console, script=False)
    page = tab.page
    tab.open("/console/definitions/HR%3A%3Aonboarding")
    assert page.get_by_role("table", name="The steps").get_by_text("Ask the boss").is_visible()
    page.get_by_label("Variables as JSON").fill('{"amount": 1e400}')
    page.get_by_role("button", name="Start version 1").click()
    page.get_by_role("heading", name="Waiting for").wait_for()
    assert page.get_by_text("Waits for a person at ask.").is_visible()


@pytest.mark.parametrize("dark", [False, True])
def test_hostile_texts_are_texts(open_tab: OpenTab, console: Installation, dark: bool):
    key = f"{HOSTILE}{'x' * 300}{dark}"
    steps = [
        {"id": "ask", "name": HOSTILE, "type": "USER_TASK", "description": HOSTILE, "conditionalNextSteps": {
            'a == "\\\\" || b == \'"]; n9 [label=\'': "end", "true": "end"}},
        {"id": "end", "name": "\\N \\G " + "x" * 250, "type": "END"},
    ]  # fmt: skip
    definition = {"id": "hostile", "name": HOSTILE, "description": HOSTILE, "steps": steps}
    store(console.processes, "/definitions", definition)
    variables = {HOSTILE: HOSTILE, "long": "y" * 100_000, "deep": [[[[{"a": HOSTILE}]]]]}
    instance = start(console, definitionId="hostile", businessKey=key, variables=variables)
    tab = open_tab(console, width=390, dark=dark)
    for path in (
        "/definitions/hostile",
        f"/instances/{instance}",
        f"/instances?businessKey={quote(key)}",
        "/definitions",
    ):
        tab.open(f"/console{path}")
        if tab.page.locator("[data-diagram]").count():
            wait_for_diagram(tab)
        assert list_elements(tab) <= ALLOWED
        assert tab.page.locator("main script, main img, main [onerror]").count() == 0
        assert tab.page.locator("main").get_by_text("<script>alert(1)</script>").count() > 0, path
        assert tab.measure_overflow() <= 0, path
        assert tab.find_violations() == []
