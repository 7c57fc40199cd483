"""The examples of docs/guides/client.md do what the page says."""

import asyncio
import re
from pathlib import Path
from typing import Any

import pytest

from statewright.sdk import client
from tests.service import RunningService, a_token

PAGE = Path(__file__).parents[3] / "docs" / "guides" / "client.md"


def test_the_examples_of_the_page_run(service: RunningService, tenant: str, monkeypatch: pytest.MonkeyPatch) -> None:
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    monkeypatch.setenv("STATEWRIGHT_URL", service.root)
    monkeypatch.setenv("STATEWRIGHT_TOKEN", a_token(tenant))
    code = "\n".join(blocks).replace('"http://localhost:8080"', "")
    names: dict[str, Any] = {"__name__": "client_page"}
    exec(compile(code, str(PAGE), "exec"), names)
    assert asyncio.run(names["count_orders"]()) == 2
    for name in ("client", "patient", "impatient"):
        names[name].close()


@pytest.mark.parametrize(
    "kind",
    [
        *(client.Client, client.Models, client.Workflows, client.Searches, client.Steps, client.Flows),
        *(client.Ops, client.Incidents, client.Suspensions),
    ],
)
def test_the_page_names_every_operation(kind: type) -> None:
    operations = {name for name, value in vars(kind).items() if hasattr(value, "__wrapped__")}
    assert {name for name in operations if not re.search(rf"[`.]{name}\(", PAGE.read_text())} == set()
