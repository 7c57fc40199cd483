"""examples/flows and its demo: a flow that survives the death of the service."""

import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from statewright.flows import LocalInstance, compile_graph, compile_text
from statewright.flows.running import Invocation
from tests.e2e.program import EXAMPLES, play_demo


def load_tasks() -> dict[str, Callable[..., Any]]:
    """The functions of both workers, by task."""
    tasks = dict[str, Callable[..., Any]]()
    for worker in ("warehouse", "finance"):
        spec = importlib.util.spec_from_file_location(f"flows_example_{worker}", EXAMPLES / "flows" / f"{worker}.py")
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        tasks |= {function.name: getattr(module, function.name) for function in module.node.functions}
    return tasks


@pytest.mark.parametrize(
    ("cart", "total", "approved", "parcels"), [("small", 4, False, 1), ("usual", 43, False, 2), ("large", 210, True, 4)]
)
def test_the_flow_comes_to_the_same_without_a_service(cart: str, total: int, approved: bool, parcels: int) -> None:
    tasks = load_tasks()
    flow = compile_graph(compile_text((EXAMPLES / "flows" / "fulfilment.flow").read_text()))
    instance = LocalInstance(flow, {"id": "O-1", "cart": cart})

    def implement(invocation: Invocation) -> Any:
        task = tasks[str(invocation.node.name)]
        arguments = [invocation.node] if "task" in task.__annotations__ else []  # it has parameters, as a Task has
        return task(invocation.input, *arguments)

    instance.run(implement)
    assert instance.result == {"order": "O-1", "total": total, "approved": approved, "parcels": parcels}


def test_the_demo_survives_the_death_of_the_service(tmp_path: Path) -> None:
    assert "Every order ended as it should, and no task counted twice." in play_demo("demo_flows.py", tmp_path)
