"""examples/playbooks and its demo: playbooks that survive the death of the service."""

from pathlib import Path

from tests.e2e.program import play_demo


def test_the_demo_survives_the_death_of_the_service(tmp_path: Path) -> None:
    assert "Every claim ended as it should, and nothing counted twice." in play_demo("demo_playbooks.py", tmp_path)
