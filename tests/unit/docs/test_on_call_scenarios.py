"""The twelve scenarios of docs/guides/operating.md#on-call are those that tests play: which one plays what."""

import re
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[2]
GUIDE = TESTS.parent / "docs" / "guides" / "operating.md"

OPS = "integration/ops"
TIMERS = "integration/schedules/test_incidents.py"
POISON = "integration/processes/test_poisoned_work.py"
PLAYED_BY = {
    "A worker dies": (
        ("e2e/test_cluster.py", "test_a_node_killed_with_a_callout_on_its_member"),
        ("e2e/test_workers.py", "test_a_worker_that_is_killed_is_replaced_and_forgotten"),
        ("integration/steps/test_timers.py", "test_the_timer_of_a_node_that_died_is_fired_by_another"),
        ("e2e/test_bulk_kills.py", "test_each_transition_is_taken_once_though_the_node_is_killed"),
    ),
    "Nobody has a tag": (
        (f"{OPS}/test_workflow_checks.py", "test_tags_are_held_against_the_connected_members"),
        (f"{OPS}/test_incidents.py", "test_a_group_is_retried_and_closed_from_the_command_line"),
        ("e2e/test_operating_guide.py", "test_the_ten_recipes_print_what_the_page_says"),
    ),
    "Nobody takes a job type": (
        (f"{OPS}/test_queue_watch.py", "test_a_queue_that_nobody_serves_is_an_incident_until_somebody_polls"),
        ("browser/test_work.py", "test_a_queue_without_a_worker_is_one_click_from_home_and_goes_when_one_comes"),
        (f"{OPS}/test_bulk_jobs.py", "test_instances_are_cancelled_and_those_that_failed_begin_again"),
    ),
    "A third of the work fails": (
        (f"{OPS}/test_incidents.py", "test_equal_failures_are_counted_and_grouped"),
        (f"{OPS}/test_incidents.py", "test_10_000_failures_of_50_entities_are_50_incidents_and_none_is_lost"),
        (f"{OPS}/test_bulk_jobs.py", "test_the_incidents_of_a_cause_are_retried_and_others_resolved"),
    ),
    "One entity ends every node that touches it": (
        ("e2e/test_poison.py", "test_two_nodes_outlive_a_timer_that_ends_whoever_fires_it"),
        (
            "integration/processes/test_poisoned_work.py",
            "test_what_ends_three_nodes_is_parked_and_an_incident_names_it",
        ),
        (POISON, "test_a_retry_has_parked_work_done"),
    ),
    "A timer does not fire": (
        (
            "integration/schedules/test_incidents.py",
            "test_a_timer_that_fails_too_often_is_parked_until_somebody_retries",
        ),
        (TIMERS, "test_an_incident_of_a_timer_that_was_armed_anew_closes_itself"),
    ),
    "A bad import": (
        (
            f"{OPS}/test_workflow_revisions.py",
            "test_entities_that_an_import_strands_are_an_incident_until_it_is_taken_back",
        ),
        ("browser/test_models.py", "test_an_import_that_strands_entities_is_seen_and_taken_back"),
    ),
    "Rolling a workflow back": (
        (f"{OPS}/test_workflow_revisions.py", "test_the_client_and_the_command_line_count_entities"),
        (f"{OPS}/test_workflow_revisions.py", "test_every_import_is_a_revision_that_exports_to_what_it_left"),
    ),
    "A backlog": (
        (f"{OPS}/test_queues.py", "test_jobs_without_a_worker_are_waiting"),
        (f"{OPS}/test_queues.py", "test_a_queue_tells_how_much_was_handed_out_in_the_last_minute"),
        ("integration/schedules/test_service.py", "test_a_backlog_of_several_batches_is_worked_off"),
    ),
    "Suspending while a node is frozen": (
        (f"{OPS}/test_suspensions.py", "test_a_frozen_node_is_named_until_it_knows_of_the_suspension"),
        ("e2e/test_cluster.py", "test_a_node_that_hangs_is_given_up_and_welcome_again"),
    ),
    "A rolling restart": (
        ("e2e/test_workers.py", "test_a_rolling_restart_fails_no_request"),
        (f"{OPS}/test_bulk_jobs.py", "test_a_node_that_stops_gives_its_jobs_back_and_another_goes_on_at_once"),
    ),
    "Draining a member": (
        (f"{OPS}/test_draining.py", "test_a_drained_member_gets_nothing_and_what_it_has_is_finished"),
        ("integration/cluster/test_members.py", "test_a_member_of_another_node_is_drained"),
    ),
}


def test_the_page_tells_these_scenarios_and_of_each_what_one_sees_does_and_has_afterwards() -> None:
    section = GUIDE.read_text().partition("\n## On call")[2]
    told = dict(zip(*[iter(re.split(r"(?m)^### (.*)\n", section)[1:])] * 2, strict=True))
    assert list(told) == list(PLAYED_BY)
    for text in told.values():
        assert re.findall(r"(?m)^- \*(\w+):\*", text) == ["See", "Do", "Afterwards"]


@pytest.mark.parametrize("scenario", PLAYED_BY)
def test_each_scenario_is_played(scenario: str) -> None:
    for file, test in PLAYED_BY[scenario]:
        assert f"def {test}(" in (TESTS / file).read_text(), (file, test)
