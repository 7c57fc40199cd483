"""How often an open page asks again when nothing happens (docs/console.md#budgets)."""

import re
from fractions import Fraction
from pathlib import Path

import pytest

from statewright.console.request import Page
from statewright.console.routes import ROUTES

TEMPLATES = Path(__file__).resolve().parents[3] / "src" / "statewright" / "console" / "templates"
PAGES = sorted(path.name for path in (TEMPLATES / "pages").glob("*.html"))
PARTS = [route for route in ROUTES if isinstance(route, Page) and route.is_part]
KEPT = {f"parts/{path.name}" for path in (TEMPLATES / "parts").glob("*.html")}
"""Some routes share a template of another name."""
MOST = Fraction(1, 5)
"""Requests per second."""


def read_rate(text: str) -> Fraction:
    """The requests per second of what a template says."""
    return sum((Fraction(1, int(seconds)) for seconds in re.findall(r"every (\d+)s", text)), Fraction(0))


def rate_page(name: str) -> Fraction:
    """Those of a page: its own triggers, those of the parts that it loads, and the numbers of the navigation."""
    page = (TEMPLATES / "pages" / name).read_text()
    numbers = sum(1 for route in ROUTES if isinstance(route, Page) and route.navigation and route.navigation.badge)
    layout = (TEMPLATES / "layout.html").read_text()
    loaded = {part.template for part in PARTS if f'/{part.path.rpartition("/")[2]}"' in page}
    included = set(re.findall(r'include "(parts/[^"]+)"', page))
    parts = sum((read_rate((TEMPLATES / part).read_text()) for part in (loaded & KEPT) | included), Fraction(0))
    return read_rate(page) + parts + numbers * read_rate(layout)


@pytest.mark.parametrize("name", PAGES)
def test_an_idle_page_asks_at_most_once_in_five_seconds(name: str):
    assert rate_page(name) <= MOST


def test_the_rates_are_found():
    assert rate_page("home.html") > rate_page("help.html") > 0
    assert rate_page("model.html") > rate_page("help.html"), "the part asks for itself"
    assert rate_page("workflow.html") > rate_page("help.html")


def test_nothing_polls_for_each_row_of_a_list():
    loops = re.compile(r"{% for .*?{% endfor %}", re.DOTALL)
    found = [
        path.name for path in TEMPLATES.rglob("*.html") for loop in loops.findall(path.read_text()) if "every " in loop
    ]
    assert [name for name in found if name != "layout.html"] == []
