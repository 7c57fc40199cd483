"""The rules and the dashboard in ``deploy/monitoring`` ask for metrics that there are (docs/reference/metrics.md)."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
MONITORING = ROOT / "deploy" / "monitoring"
PAGES = [ROOT / "docs" / "reference" / name for name in ("metrics.md", "steps.md")]
OF_OTHERS = {"up", "process_resident_memory_bytes", "process_cpu_seconds_total"}
"""Of Prometheus itself, and of every process."""

WORD = re.compile(r"[a-z_:][a-z0-9_:]*")
NO_METRICS = re.compile(r"\{[^}]*\}|\[[^\]]*\]|\bby \([^)]*\)|\"[^\"]*\"")


def read_rules() -> list[dict[str, Any]]:
    loaded = yaml.safe_load((MONITORING / "alerts.yaml").read_text())
    return [rule for group in loaded["groups"] for rule in group["rules"]]


def read_panels() -> list[dict[str, Any]]:
    loaded: dict[str, Any] = json.loads((MONITORING / "dashboard.json").read_text())
    return list(loaded["panels"])


EXPRESSIONS = [rule["expr"] for rule in read_rules()] + [
    target["expr"] for panel in read_panels() for target in panel["targets"]
]


def list_documented() -> set[str]:
    """All names in the first columns of tables, and what is stored of histograms."""
    cells = re.findall(r"(?m)^\| (`.*?) \|", "\n".join(page.read_text() for page in PAGES))
    names = {name for cell in cells for name in re.findall(r"`(\w+)`", cell)}
    return names | {f"{name}_{part}" for name in names for part in ("bucket", "sum", "count")}


def list_metrics(expression: str) -> set[str]:
    """The words that are neither functions, which a bracket follows, nor labels."""
    bare = NO_METRICS.sub("", expression)
    return {word[0] for word in WORD.finditer(bare) if "_" in word[0] and bare[word.end() : word.end() + 1] != "("}


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_every_metric_that_is_asked_for_is_documented(expression: str):
    asked = list_metrics(expression) or {"up"}
    assert asked <= list_documented() | OF_OTHERS


def test_labels_that_are_chosen_have_values_that_are_documented():
    text = "\n".join(page.read_text() for page in PAGES)
    for expression in EXPRESSIONS:
        for label, value in re.findall(r'(\w+)="([^"$.]+)"', expression):
            if label not in {"job", "instance"}:
                assert f"`{value}`" in text, expression


def test_every_rule_says_what_is_wrong_and_how_bad_that_is():
    names = [rule["alert"] for rule in read_rules()]
    assert len(set(names)) == len(names)
    for rule in read_rules():
        assert rule["labels"]["severity"] in {"warning", "critical"}
        assert rule["annotations"]["summary"]


def test_the_panels_have_places_of_their_own():
    taken = {(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in read_panels()}
    assert len(taken) == len(read_panels())
    assert len({panel["id"] for panel in read_panels()}) == len(read_panels())
