"""Diagrams in Mermaid's notation."""

from statewright.steps import draw_definition, draw_instance
from statewright.steps.mermaid import compute_progress
from tests.unit.steps.builders import a_process, decision, end, fork, join, service, timer, transformation, user, wait
from tests.unit.steps.world import World

PROCESS = a_process(
    fork("fork", "join", "ask", "park"),
    user("ask", "join", boundaryEvents=[timer("PT1H", "late"), timer("P1D", "late", interrupting=True)]),
    wait("park", "join"),
    service("late", "join"),
    join("join", "route"),
    decision("route", {'#n > 1 && x == "a"': "calc", "true": "end"}),
    transformation("calc", "end", y=1),
    end(),
)


def test_a_definition_is_drawn_with_its_steps_and_ways():
    assert draw_definition(PROCESS.definition) == (
        "flowchart TD\n"
        '    s0[\\"Fork"/]\n'
        "    s0 --> s1\n"
        "    s0 --> s2\n"
        '    s1[/"Ask"/]\n'
        "    s1 --> s4\n"
        '    s1 -. "after PT1H" .-> s3\n'
        '    s1 == "after P1D" ==> s3\n'
        '    s2(["Park"])\n'
        "    s2 --> s4\n"
        '    s3["Late"]\n'
        "    s3 --> s4\n"
        '    s4[/"Join"\\]\n'
        "    s4 --> s5\n"
        '    s5{"Route"}\n'
        '    s5 -- "#35;n #gt; 1 #amp;#amp; x == #quot;a#quot;" --> s6\n'
        '    s5 -- "true" --> s7\n'
        '    s6[["Calc"]]\n'
        "    s6 --> s7\n"
        '    s7((("End")))\n'
    )


def test_a_live_instance_shows_what_is_done_and_what_is_active():
    world = World(PROCESS).start(n=1).signal("park")
    diagram = draw_instance(PROCESS.definition, world.instance, world.last_statuses)
    assert "    class s0 done\n" in diagram
    assert "    class s1 active\n" in diagram
    assert "    class s2 done\n" in diagram
    assert "    class s4 active\n" in diagram
    assert "class s6" not in diagram
    assert "classDef failed" not in diagram


def test_a_failed_instance_shows_where():
    world = World(PROCESS).start(n=1).fire().fail("late")
    assert progress_of(world) == {"fork": "done", "ask": "active", "park": "active", "late": "failed"}


def test_a_cancelled_instance_shows_where_it_was_stopped():
    assert progress_of(World(PROCESS).start(n=1).cancel()) == {
        "fork": "done",
        "ask": "stopped",
        "park": "stopped",
    }


def test_a_completed_instance_is_all_done():
    world = World(PROCESS).start(n=5, x="a").signal("park").finish_task("ask")
    assert set(progress_of(world).values()) == {"done"}


def test_a_task_that_a_timer_interrupted_is_stopped_and_not_done():
    late = user("ask", "end", boundaryEvents=[timer("PT1H", "late", interrupting=True)])
    world = World(a_process(late, service("late", "end"), end())).start().fire()
    assert progress_of(world) == {"ask": "stopped", "late": "active"}
    assert progress_of(world.complete("late")) == {"ask": "stopped", "late": "done", "end": "done"}


def test_a_task_that_was_interrupted_and_done_later_is_done():
    late = user("ask", "end", boundaryEvents=[timer("PT1H", "ask", interrupting=True)])
    world = World(a_process(late, end())).start().fire().finish_task("ask")
    assert progress_of(world) == {"ask": "done", "end": "done"}


def test_what_was_left_when_the_instance_completed_is_stopped():
    parked = wait("park", "end", boundaryEvents=[timer("PT1H", "end")])
    assert progress_of(World(a_process(parked, end())).start().fire()) == {"park": "stopped", "end": "done"}


def test_of_several_tokens_at_a_step_the_most_urgent_counts():
    world = World(a_process(fork("fork", "join", "a", "a"), service("a", "join"), join("join", "end"), end())).start()
    assert progress_of(world.fail("a"))["a"] == "failed"


def progress_of(world: World) -> dict[str, str]:
    return dict(compute_progress(world.instance, world.last_statuses))
