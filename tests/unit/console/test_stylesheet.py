"""Text and marks can be read in both themes: the contrasts of the tokens, computed from the style sheet (WCAG 2.2)."""

import re

import pytest

from statewright.console.response import ROOT, STYLE_SHEET, STYLES, load_static_files

SHEET = load_static_files()[STYLE_SHEET]
MAX_COMPRESSED_BYTES = 12_000
WORDS = ("text", "muted", "link", "info", "ok", "warn", "bad", "wait", "off")
KINDS = ("ok", "warn", "bad", "info", "wait", "off")


def read_tokens(selector: str) -> dict[str, str]:
    block = SHEET.body.decode().split(selector, 1)[1].split("}", 1)[0]
    return dict(re.findall(r"--([a-z-]+):\s*(#[0-9a-f]{6})", block))


THEMES = {"light": read_tokens(":root {"), "dark": read_tokens(':root[data-theme="dark"] {')}


def get_luminance(colour: str) -> float:
    channels = [int(colour[n : n + 2], 16) / 255 for n in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def get_contrast(one: str, other: str) -> float:
    light, dark = sorted((get_luminance(one), get_luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("theme", THEMES)
def test_words_can_be_read_on_page_and_panel(theme: str):
    tokens = THEMES[theme]
    for word in WORDS:
        for ground in ("bg", "panel"):
            assert get_contrast(tokens[word], tokens[ground]) >= 4.5, (word, ground)


@pytest.mark.parametrize("theme", THEMES)
def test_badges_can_be_read(theme: str):
    tokens = THEMES[theme]
    for kind in KINDS:
        assert get_contrast(tokens[kind], tokens[f"{kind}-soft"]) >= 4.5, kind


@pytest.mark.parametrize("theme", THEMES)
def test_controls_and_focus_can_be_seen(theme: str):
    tokens = THEMES[theme]
    for mark in ("control", "focus"):
        for ground in ("bg", "panel"):
            assert get_contrast(tokens[mark], tokens[ground]) >= 3, (mark, ground)


def test_the_dark_theme_is_the_same_by_preference_and_by_choice():
    assert read_tokens(':root:not([data-theme="light"]) {') == THEMES["dark"]


def test_every_block_is_closed_and_sections_begin_outside_of_blocks():
    depth = 0
    for line in SHEET.body.decode().splitlines():
        assert not (line.startswith("/*") and depth), line
        depth += line.count("{") - line.count("}")
    assert depth == 0


def test_every_file_of_styles_is_in_the_sheet_once_and_no_other_is_served():
    assert sorted(STYLES) == sorted(entry.name.removesuffix(".css") for entry in (ROOT / "styles").iterdir())
    assert [name for name in load_static_files() if name.endswith(".css")] == [STYLE_SHEET]
    for name in STYLES:
        assert (ROOT / "styles" / f"{name}.css").read_text() in SHEET.body.decode()


def test_the_sheet_is_small():
    assert len(SHEET.compressed) <= MAX_COMPRESSED_BYTES
