"""What no template may do (docs/console.md#security)."""

import re
from pathlib import Path

import pytest

from statewright.console.frame import Renderer

ROOT = Path(__file__).resolve().parents[3] / "src" / "statewright" / "console"
TEMPLATES = sorted((ROOT / "templates").rglob("*.html"))

FORBIDDEN = {
    "unescaped output": r"\|\s*safe\b|autoescape\s+false",
    "an inline style": r"\sstyle\s*=|<style\b",
    "an inline handler": r"\son[a-z]+\s*=",
    "an inline script": r"<script(?![^>]*\ssrc=)",
    "code for htmx": r"hx-on|hx-live|hx-vals\s*=\s*['\"]?js:|js:|javascript:",
    "a filter in a trigger": r"hx-trigger=\"[^\"]*\[",
    "an address outside": r"(?:src|href|action)\s*=\s*['\"]?(?:https?:)?//",
    "an attribute without quotes": r"\s(?:href|src|value|action|hx-get)=\{\{",
}


@pytest.mark.parametrize("rule", FORBIDDEN)
def test_no_template_has(rule: str):
    found = {path.name: re.findall(FORBIDDEN[rule], path.read_text()) for path in TEMPLATES}
    assert {name: matches for name, matches in found.items() if matches} == {}


def test_the_rules_find_what_they_are_for():
    bad = (
        "{{ x|safe }} <p style='x'> <a onclick=x> <script>x</script> <p hx-on:click=x> "
        '<p hx-trigger="load[x]"> <img src="//evil"> <a href={{ x }}>'
    )
    assert all(re.search(rule, bad) for rule in FORBIDDEN.values())


def test_every_form_that_acts_at_once_shows_its_call():
    """What asks first, shows it there (docs/console.md#how-to-add-a-page)."""
    form = re.compile(r'<form [^>]*action="/console/do/(.*?)".*?</form>', re.DOTALL)
    silent = [
        f"{path.name}: {found[1]}"
        for path in TEMPLATES
        for found in form.finditer(path.read_text())
        if "as_curl(" not in found[0] and "/console/call/" not in found[0]
    ]
    assert silent == []


def test_every_template_compiles():
    renderer = Renderer(lambda: 0)
    for path in TEMPLATES:
        renderer._environment.get_template(path.relative_to(ROOT / "templates").as_posix())


def test_text_of_users_is_escaped_everywhere():
    hostile = '"><script>alert(1)</script>'
    html = (
        Renderer(lambda: 0)
        ._environment.from_string(
            '{% from "macros/name.html" import name %}{% from "macros/id.html" import id %}{{ name(x) }}{{ id(x) }}'
        )
        .render(x=hostile)
    )
    assert "<script" not in html
    assert 'title=""' not in html


def test_characters_that_cannot_be_seen_are_named():
    template = '{% from "macros/name.html" import name %}{{ name(x) }}'
    html = Renderer(lambda: 0)._environment.from_string(template).render(x="a\u202eb")
    assert html == '<bdi class="name">a<span class="chip">U+202E</span>b</bdi>'
