"""What ``make pictures`` draws: pages with something to see on them, hostile texts, and each way to fail."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from urllib.parse import quote

from tests.browser.installation import HOSTILE, Installation
from tests.browser.tab import Tab
from tests.builders import Json, a_processor, a_workflow, automated, manual, when

CLAIM: Json = {
    "claimant": {"name": "Ada Lovelace", "email": "ada@example.org"},
    "amount": 9800.50,
    "currency": "EUR",
    "approved": False,
    "items": [{"what": "bicycle", "price": 8200.00}, {"what": "helmet", "price": 1600.50}],
}
HOUR_MS = 3_600_000


def a_handling(**more: Json) -> Json:
    """A workflow with a bit of everything: criteria, a processor without a worker, a timer, a final state."""
    states: Json = {
        "NEW": [manual("REGISTER", to="OPEN")],
        "OPEN": [
            automated("SETTLE", to="PAID", criterion=when("$.approved", "EQUALS", True)),
            manual("APPROVE", to="PAID", criterion=when("$.amount", "GREATER_THAN", 10_000)),
            manual("HOLD", to="HELD"),
            manual("REJECT", to="REJECTED"),
        ],
        "HELD": [
            manual("RELEASE", to="OPEN", processors=[a_processor("fraud-check", tags="fraud")]),
            automated("EXPIRE", to="REJECTED", schedule={"delayMs": 72 * HOUR_MS}),
        ],
        "PAID": [],
        "REJECTED": [],
    }
    return a_workflow("handling", **(states | more))


CHANGED = a_handling(
    OPEN=[
        manual("APPROVE", to="PAID", criterion=when("$.amount", "GREATER_THAN", 5_000)),
        manual("HOLD", to="HELD"),
        manual("ESCALATE", to="ESCALATED"),
    ],
    ESCALATED=[manual("DECIDE", to="PAID")],
)
"""The same with a state more, a transition less, and another limit."""

FINDINGS = a_workflow(
    "handling",
    NEW=[manual("REGISTER", to="OPEN"), manual("SKIP", to="ARCHIVED")],
    OPEN=[
        automated("FIRST", to="PAID", criterion=when("$.approved", "EQUALS", True)),
        automated("SECOND", to="PAID", criterion=when("$.amout", "GREATER_THAN", 5_000)),
    ],
    PAID=[],
)
"""A workflow that is checked and not accepted: a target is missing, and a path is mistyped."""

EVIL = "<b onmouseover=alert(1)>\u202eabc"


def fill_scenes(installation: Installation) -> dict[str, str]:
    """Claims on their ways, and a workflow with hostile names; the ids of what single pictures show."""
    api = installation.api
    api.a_model(a_handling(), model="claim/1", sample=CLAIM)
    api.a_model(CHANGED, model="claim/2", sample=CLAIM)
    claims = [api.create(CLAIM | {"amount": 800.25 + 1250 * n}, model="claim/1").id for n in range(14)]
    for claim in claims[:11]:
        api.update(claim, api.read(claim)["data"], fire="REGISTER")
    for claim in claims[:3]:
        api.update(claim, api.read(claim)["data"], fire="HOLD")
    for claim in claims[9:11]:
        api.update(claim, api.read(claim)["data"], fire="APPROVE")
    api.update(claims[3], api.read(claims[3])["data"] | {"approved": True})
    api.put(f"/entity/JSON/{claims[0]}/RELEASE", CLAIM)  # nobody serves the tag: it fails, and stays
    gone = claims[-1]
    api.delete(f"/entity/{gone}")
    hostile = a_workflow("evil/../?#%", Start=[manual(EVIL, to="End"), manual("x" * 200, to="End")], End=[])
    harm = {HOSTILE: HOSTILE, "long": "y" * 5_000, "deep": _nest(40)}
    api.a_model(hostile, model="evil/1", sample=harm)
    evil = api.create(harm, model="evil/1").id
    return {"claim": claims[0], "gone": gone, "evil": evil, "open": claims[4]}


def _nest(levels: int) -> Json:
    return {"a": _nest(levels - 1)} if levels else "bottom"


def settle(tab: Tab) -> None:
    """Waits until parts have come and diagrams are drawn, which they are when they come into view; then goes up."""
    page = tab.page
    page.locator("main h1, main .problem, dialog[open]").first.wait_for()
    if not tab.held:
        for part in page.locator("[hx-trigger*=revealed]:visible").all():
            part.scroll_into_view_if_needed()
        page.locator("main .part > .loading:visible").first.wait_for(state="detached")
    for diagram in page.locator("[data-diagram]").all():
        if diagram.is_visible():
            diagram.scroll_into_view_if_needed()
            page.locator(f"#{diagram.get_attribute('id')}:is([data-state=drawn], [data-state=failed])").wait_for()
    page.evaluate("() => scrollTo(0, 0)")
    page.wait_for_timeout(300)  # marks are put on diagrams, and morphs end


Ids = Mapping[str, str]
Path = Callable[[Installation, Ids], str]


def do_nothing(_tab: Tab) -> None:
    """The page is looked at as it opens."""


@dataclass(frozen=True)
class Scene:
    """A page to look at. ``of`` says of which installation; ``prepare`` does in the tab what has to be done first."""

    path: Path
    prepare: Callable[[Tab], None] = do_nothing
    of: str = "filled"
    expected: tuple[str, ...] = ()
    """Patterns of what the browser complains of, rightly."""


def _at(path: str) -> Path:
    return lambda _installation, _ids: path


def _build(template: str, **more: str) -> Path:
    """A path with the parameters of the installation, and ids of the scenes."""

    def build(installation: Installation, ids: Ids) -> str:
        own = installation.own_parameters.get(more.get("of", ""), {})
        values = installation.parameters | own | dict(ids)
        return template.format(**{name: quote(value, safe="") for name, value in values.items()})

    return build


def _open_all(tab: Tab) -> None:
    for summary in tab.page.locator("main details:not([open], .calls, .branch) > summary").all():
        if summary.is_visible():
            summary.click()


def check_import(workflow: Json) -> Callable[[Tab], None]:
    """Lets the page of an import check a workflow."""

    def check(tab: Tab) -> None:
        tab.page.get_by_label("or its text").fill(json.dumps({"workflows": [workflow]}))
        tab.page.get_by_role("button", name="Check").click()
        tab.page.get_by_role("heading", name="Findings").first.wait_for()

    return check


def _ask(button: str) -> Callable[[Tab], None]:
    def press(tab: Tab) -> None:
        tab.page.get_by_role("button", name=button, exact=True).first.click()
        tab.page.locator("dialog[open] .confirm").wait_for()

    return press


def _hold_parts(tab: Tab) -> None:
    """Parts never come, as on a slow day."""
    tab.page.route("**/console/part/**", lambda route: tab.held.append(route))
    with tab.page.expect_request("**/console/part/**"):
        tab.page.reload()


CONDITION = {
    "type": "group",
    "operator": "AND",
    "conditions": [
        {"type": "lifecycle", "field": "state", "operatorType": "EQUALS", "value": "OPEN"},
        {
            "type": "group",
            "operator": "OR",
            "conditions": [
                {"type": "simple", "jsonPath": "$.amount", "operatorType": "GREATER_THAN", "value": 5000},
                {"type": "simple", "jsonPath": "$.claimant.name", "operatorType": "EQUALS", "value": "Ada Lovelace"},
            ],
        },
    ],
}
_CLAIMS = "/console/models/claim/1"
_LIST = f"{_CLAIMS}/entities"
_TYPO = '{"type":"simple","jsonPath":"$.amout","operatorType":"EQUALS","value":1}'
_NONE = '{"type":"simple","jsonPath":"$.amount","operatorType":"EQUALS","value":1}'

SCENES: dict[str, Scene] = {
    "home": Scene(_at("/console/")),
    "home-empty": Scene(_at("/console/"), of="empty"),
    "model": Scene(_at(_CLAIMS)),
    "workflow": Scene(_at(f"{_CLAIMS}/workflows/handling")),
    "workflow-diff": Scene(_at(f"{_CLAIMS}/workflows/handling/diff?version=2&workflow=handling")),
    "import-findings": Scene(_at(f"{_CLAIMS}/import"), check_import(CHANGED)),
    "entities": Scene(_at(f"{_LIST}?q={quote(json.dumps(CONDITION))}"), _open_all),
    "entity": Scene(_build("/console/entities/{claim}")),
    "instance": Scene(_build("/console/instances/{instance}")),
    "incident-group": Scene(
        _build("/console/incidents/groups/{fingerprint}", of="/console/incidents/groups/{fingerprint}")
    ),
    "workers": Scene(_at("/console/workers")),
    "task": Scene(_build("/console/tasks/{id}", of="/console/tasks/{id}")),
    "hostile-entity": Scene(_build("/console/entities/{evil}")),
    "hostile-entities": Scene(_at("/console/models/evil/1/entities")),
    "hostile-workflow": Scene(_at(f"/console/models/evil/1/workflows/{quote('evil/../?#%', safe='')}")),
    "hostile-incident": Scene(_at("/console/incidents/list")),
    "state-loading": Scene(_at("/console/"), _hold_parts, expected=("ERR_ABORTED", "Failed to fetch")),
    "state-empty": Scene(_at(f"{_LIST}?q={quote(_NONE)}")),
    "state-typo": Scene(_at(f"{_LIST}?q={quote(_TYPO)}")),
    "state-failed": Scene(_at(f"{_LIST}?q=%7Bbroken"), expected=("400",)),
    "state-not-found": Scene(_at("/console/entities/00000000-0000-1000-8000-000000000000"), expected=("404",)),
    "state-deleted": Scene(_build("/console/entities/{gone}")),
    "state-as-of": Scene(_build("/console/entities/{open}?at=2099-01-01T00:00:00Z")),
    "state-not-allowed": Scene(_at("/console/admin/clients"), of="reader"),
    "state-read-only": Scene(_at("/console/models"), of="reader"),
    "import-errors": Scene(_at(f"{_CLAIMS}/import"), check_import(FINDINGS)),
    "confirmation": Scene(_at(_CLAIMS), _ask("Suspend")),
}
"""By the name of the picture: the twelve of every release, then hostile data, then one for each state of a page."""
