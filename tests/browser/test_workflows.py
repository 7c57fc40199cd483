"""The page of a workflow: a diagram drawn in a worker, and the table that says the same."""

import os
import re
from urllib.parse import quote

import pytest

from tests.browser.conftest import OpenTab
from tests.browser.installation import HOSTILE, Installation
from tests.browser.tab import Tab
from tests.builders import a_workflow, manual

ALLOWED = {"svg", "g", "path", "polygon", "polyline", "ellipse", "text", "title", "a"}
WORKFLOW = "/console/models/order/1/workflows/fulfilment"


def wait_for_diagram(tab: Tab, state: str = "drawn") -> None:
    tab.page.locator("[data-diagram]").first.scroll_into_view_if_needed()  # it is drawn when it comes into view
    tab.page.locator(f"[data-diagram][data-state={state}]").first.wait_for()


def list_elements(tab: Tab) -> set[str]:
    """The names of all elements of the pictures."""
    return set(
        tab.page.evaluate(
            "() => [...document.querySelectorAll('.diagram svg, .diagram svg *')].map((e) => e.localName)"
        )
    )


def test_the_diagram_shows_states_with_live_counts(tab: Tab):
    tab.open(WORKFLOW)
    wait_for_diagram(tab)
    paid = tab.page.locator("g.node", has_text="PAID")
    paid.locator("text.note", has_text=re.compile(r"^\d+$")).wait_for()  # other tests pay orders, too
    count = paid.locator("text.note").inner_html()
    assert paid.locator("a").get_attribute("aria-label") == f"PAID: {count} entities"
    assert int(count) >= 5
    assert tab.page.locator("g.edge", has_text="APPROVE ◇").count() == 1
    assert list_elements(tab) <= ALLOWED
    tab.page.locator("g.node", has_text="PAID").locator("a").click()
    assert tab.page.url.endswith("#state-1")


def test_the_diagram_can_be_walked_by_keys(tab: Tab):
    tab.open(WORKFLOW)
    wait_for_diagram(tab)
    tab.page.locator("g.node", has_text="NEW").locator("a").focus()
    tab.page.keyboard.press("ArrowRight")
    tab.page.keyboard.press("ArrowRight")
    said = tab.page.evaluate("() => document.activeElement.getAttribute('aria-label')")
    assert said.startswith("SHIPPED")
    tab.page.keyboard.press("ArrowLeft")
    assert tab.page.evaluate("() => document.activeElement.getAttribute('aria-label')").startswith("PAID")


def test_the_table_says_what_the_diagram_shows_without_a_script(open_tab: OpenTab, console: Installation):
    tab = open_tab(console, script=False)
    tab.open(WORKFLOW)
    table = tab.page.get_by_role("table", name="States and transitions").inner_text()
    for text in (
        "NEW",
        "entities begin here",
        "APPROVE",
        "$.amount is greater than 10000",
        "final: nothing leads out of it",
    ):
        assert text in table
    assert not tab.page.locator(".diagram").is_visible()


def test_the_check_of_the_workflow_is_shown(tab: Tab):
    tab.open(WORKFLOW)
    tab.page.get_by_role("heading", name="Findings").wait_for()
    tab.page.locator(".part", has_text=re.compile("finds nothing|at /")).first.wait_for()


def test_downloads_are_made_by_the_page(tab: Tab):
    tab.open(WORKFLOW)
    wait_for_diagram(tab)
    for kind, begins in (("SVG", "<svg"), ("DOT", "digraph"), ("JSON", "{")):
        with tab.page.expect_download() as saved:
            tab.page.get_by_role("button", name=f"Download {kind}").click()
        assert saved.value.path().read_text().startswith(begins)


def test_a_state_shows_its_neighbourhood(tab: Tab):
    tab.open(f"{WORKFLOW}?focus=APPROVED")
    wait_for_diagram(tab)
    assert tab.page.get_by_role("heading", name="Diagram around APPROVED").is_visible()
    assert tab.page.locator(".diagram-note").inner_text() == "What is near one state, and 3 more."


@pytest.fixture(scope="module")
def hostile(console: Installation) -> str:
    """A model whose workflow has hostile names; the path of its page."""
    names = [HOSTILE, '"]; n9 [label="', "\\N \\G\\", "a\r\nb \u202e", "x" * 250, 'hx-get="/evil"', "&lt;b&gt; ]]>"]
    states = {name: {"transitions": [manual(name, to=names[0])]} for name in names[1:]}
    states[names[0]] = {"transitions": [manual(names[2], to=names[1])]}
    workflow = a_workflow(NEW=[]) | {"name": HOSTILE[:200], "initialState": names[0], "states": states}
    console.api.a_model(workflow, model="hostile/1", sample={"a": 1})
    console.api.create({"a": 1}, model="hostile/1")
    return f"/console/models/hostile/1/workflows/{quote(HOSTILE[:200], safe='')}"


@pytest.mark.parametrize("dark", [False, True])
def test_hostile_names_are_texts(open_tab: OpenTab, console: Installation, hostile: str, dark: bool):
    tab = open_tab(console, width=390, dark=dark)
    tab.open(hostile)
    wait_for_diagram(tab)
    tab.page.get_by_text("1 entity, counted").wait_for()
    assert list_elements(tab) <= ALLOWED
    assert tab.page.locator("main script, main img, main [onerror], main svg script").count() == 0
    wider = """() => [...document.querySelectorAll("g.node")].filter((node) => [...node.querySelectorAll("text")].some(
        (text) => text.getBBox().width > node.querySelector("path, ellipse").getBBox().width)).length"""
    assert tab.page.evaluate(wider) == 0, "names stay within their boxes, whatever font there is"
    assert tab.page.locator("main").get_by_text("<script>alert(1)</script>").first.is_visible()
    assert tab.measure_overflow() <= 0
    assert tab.find_violations() == []


def test_two_workflows_are_compared_in_one_diagram(tab: Tab, console: Installation):
    first = a_workflow("flow", NEW=[manual("GO", to="DONE")], DONE=[])
    second = a_workflow("flow", NEW=[manual("GO", to="HELD")], HELD=[])
    console.api.a_model(first, model="compared/1", sample={"a": 1})
    console.api.a_model(second, model="compared/2", sample={"a": 1})
    tab.open("/console/models/compared/1/workflows/flow/diff?version=2")
    wait_for_diagram(tab)
    changes = tab.page.locator(".changes").inner_text()
    assert "State DONE is gone." in changes
    assert "NEW.GO: leads to HELD, no longer to DONE." in changes
    assert tab.page.locator("g.node.added", has_text="+ HELD").count() == 1
    assert tab.page.locator("g.node.removed", has_text="− DONE").count() == 1


def import_workflow(console: Installation, model: str, edges: list[tuple[int, int]], size: int) -> str:
    """A workflow of numbered states with an edge for each pair; the path of its page."""
    states: dict[str, dict[str, list[object]]] = {f"S{number}": {"transitions": []} for number in range(size)}
    for place, (source, target) in enumerate(edges):
        states[f"S{source}"]["transitions"].append(manual(f"T{place}", to=f"S{target}"))
    workflow = a_workflow(NEW=[]) | {"name": "large", "initialState": "S0", "states": states}
    console.api.a_model(workflow, model=f"{model}/1", sample={"a": 1})
    return f"/console/models/{model}/1/workflows/large"


STATES = int(os.environ.get("STATEWRIGHT_TEST_STATES", "2000"))
"""States of the large workflow; 10,000 are promised, and cost their time."""


def test_thousands_of_states_are_shown_by_neighbourhoods_and_pages(tab: Tab, console: Installation):
    edges = [(number, number + 1) for number in range(STATES - 1)] + [(each, each // 2) for each in range(1, 500)]
    path = import_workflow(console, "vast", edges, STATES)
    tab.page.add_init_script(
        "window.longest = 0; new PerformanceObserver((list) => { for (const entry of list.getEntries())"
        " window.longest = Math.max(window.longest, entry.duration); }).observe({ type: 'longtask', buffered: true });"
    )
    tab.open(f"{path}?focus=S1000")
    wait_for_diagram(tab)
    assert tab.page.locator("g.node").count() == 5
    assert tab.page.locator(".diagram-note").inner_text() == f"What is near one state, and {STATES - 4:,} more."
    assert tab.page.locator(".state-row").count() == 200
    tab.page.get_by_role("link", name="Next").click()
    tab.page.locator("#state-200").wait_for()
    tab.page.get_by_label("Filter by name").fill("S1777")
    tab.page.get_by_role("button", name="Apply").click()
    tab.page.locator("#state-200").wait_for(state="detached")
    assert tab.page.locator(".state-row").count() == 1
    wait_for_diagram(tab)
    longest = tab.page.evaluate("() => window.longest")
    assert longest < 1_000, f"the page stood still for {longest} ms"


def test_a_tangled_workflow_is_drawn_without_labels_within_the_deadline(tab: Tab, console: Installation):
    edges = [(number * 7 % 150, (number * number * 13 + 5) % 150) for number in range(300)]
    tab.open(import_workflow(console, "tangled", edges, 150))
    wait_for_diagram(tab)
    assert tab.page.locator("[data-tier='2']").count() == 1
    assert tab.page.locator("g.node").count() == 151
    assert "Drawn without labels" in tab.page.locator(".diagram-note").inner_text()


def test_a_layout_that_fails_leads_to_the_next_lower_one_and_then_to_the_table(tab: Tab):
    tab.page.route("**/viz-global.js", lambda route: route.abort())
    tab.expect("viz-global", "ERR_FAILED", "NetworkError")
    tab.open(WORKFLOW)
    wait_for_diagram(tab, "failed")
    assert "The table says the same" in tab.page.locator(".diagram-box").inner_text()
    assert tab.page.get_by_role("table", name="States and transitions").is_visible()


def test_an_entity_is_played_through_a_workflow_without_effect(tab: Tab, console: Installation):
    page = tab.page
    tab.open("/console/models/sale/1/workflows/fulfilment")
    page.locator("summary", has_text="Play an entity").click()
    page.get_by_label("Document of the entity").fill('{"customer": "Ada", "amount": 1.50, "lines": [], "paid": true}')
    page.get_by_label("Events, one after the other").fill('[{"fire": "PAY"}]')
    page.get_by_role("button", name="Simulate").click()
    assert "It would come to rest in SHIPPED" in page.locator("main [role=status]", has_text="rest").inner_text()
    assert page.locator("tbody td.title").all_inner_texts() == ["PAY", "SHIP"]
    assert page.get_by_label("Events, one after the other").input_value() == '[{"fire": "PAY"}]'
    assert tab.find_violations() == []
    page.get_by_label("Events, one after the other").fill('[{"fire": "NO SUCH"}]')
    page.get_by_role("button", name="Simulate").click()
    page.get_by_text("It would fail in NEW").wait_for()


def test_a_workflow_is_suspended_and_resumed(tab: Tab, console: Installation):
    console.api.a_model(a_workflow("flow", NEW=[manual("GO", to="NEW")]), model="paused/1", sample={"a": 1})
    tab.open("/console/models/paused/1/workflows/flow")
    for act, says in (("Suspend", "suspended"), ("Resume", "active")):
        tab.page.get_by_role("button", name=act).click()
        tab.page.get_by_label("Reason").fill("bank is down")
        tab.page.get_by_role("button", name=f"{act} workflow").click()
        tab.page.get_by_text(f"Done: {act} workflow").wait_for()
        assert tab.page.locator(".heading .badge", has_text=says).count() == 1
    assert tab.page.get_by_text("bank is down").count() == 0
