"""Every code of the error catalogue is produced by a test over the API
(docs/reference/entities.md#entities-and-messages, Appendix B).

``PRODUCED`` names one such test for each code. What it names must exist and speak of the code, and every kind of
failure must be spoken of by some test: so none can come without a test, nor a test go and leave its code behind.
Failures of the step engine have a catalogue of their own (docs/reference/steps.md#the-json-step-engine).
"""

import ast
import copy
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from uuid import uuid1

import pytest

from statewright.failures import Failure
from statewright.ids import TransactionId
from tests.builders import a_workflow, manual, when
from tests.service import Api, RunningService, refused

TESTS = Path(__file__).parents[2]
GROUPED = "integration/statistics/test_grouped.py::test_request_rules_come_before_the_model"
TRUSTED = "integration/identity/test_trusted_keys.py"
HERE = "integration/http/test_error_catalogue.py"

PRODUCED = {
    # Generic.
    "BAD_REQUEST": (
        "integration/collections/test_creating.py::test_white_space_before_the_bracket_makes_it_one_document"
    ),
    "UNAUTHORIZED": "integration/administration/test_log_level.py::test_nobody_but_an_administrator_may",
    "FORBIDDEN": "integration/administration/test_log_level.py::test_nobody_but_an_administrator_may",
    "READ_ONLY": "integration/http/test_read_only.py::test_every_operation_that_may_change_something_is_refused",
    "HOST_NOT_ALLOWED": "integration/http/test_web_pages.py::test_the_answers_say_what_kind_of_refusal_it_is",
    "ORIGIN_NOT_ALLOWED": "integration/http/test_web_pages.py::test_the_answers_say_what_kind_of_refusal_it_is",
    "NOT_IMPLEMENTED": f"{HERE}::test_what_is_known_and_not_offered_says_so",
    "SERVER_ERROR": f"{HERE}::test_an_unclassified_failure_has_a_ticket_and_no_details",
    "PRECONDITION_REQUIRED": "integration/collections/test_patching.py::test_checks_come_in_exactly_this_order",
    "UNSUPPORTED_MEDIA_TYPE": "integration/collections/test_patching.py::test_checks_come_in_exactly_this_order",
    "NOT_FOUND": "integration/http/test_routing.py::test_with_a_token_an_unknown_path_is_a_problem",
    "HELP_TOPIC_NOT_FOUND": "integration/administration/test_help.py::test_an_unknown_topic_is_not_found",
    # Clients and keys.
    "FEATURE_DISABLED": f"{TRUSTED}::test_who_may_is_looked_at_before_whether_the_feature_is_on",
    "M2M_CLIENT_NOT_FOUND": "integration/identity/test_clients.py::test_a_client_of_another_tenant_is_none",
    "KEYPAIR_NOT_FOUND": "integration/identity/test_signing_keys.py::test_a_deleted_pair_is_gone_at_once",
    "UNSUPPORTED_ALGORITHM": (
        "integration/identity/test_signing_keys.py::test_a_malformed_request_is_refused_by_its_first_fault"
    ),
    "TRUSTED_KEY_NOT_FOUND": f"{TRUSTED}::test_an_id_that_another_tenant_uses_is_refused_and_its_key_is_none",
    "KEY_OWNED_BY_DIFFERENT_TENANT": f"{TRUSTED}::test_an_id_that_another_tenant_uses_is_refused_and_its_key_is_none",
    "TRUSTED_KEY_CAP_REACHED": f"{TRUSTED}::test_so_many_keys_of_a_tenant_count_at_a_time",
    "UNSUPPORTED_KEY_TYPE": f"{TRUSTED}::test_a_malformed_registration_is_refused_by_its_first_fault",
    # Models.
    "MODEL_NOT_FOUND": "integration/unique_keys/test_unique_keys.py::test_checks_come_in_their_order",
    "MODEL_NOT_LOCKED": f"{HERE}::test_an_unlocked_model_takes_no_entities",
    "MODEL_ALREADY_LOCKED": "integration/unique_keys/test_unique_keys.py::test_checks_come_in_their_order",
    "MODEL_ALREADY_UNLOCKED": "integration/http/test_models.py::test_an_unlocked_model_cannot_be_unlocked",
    "MODEL_HAS_ENTITIES": (
        "integration/http/test_models.py::test_live_entities_keep_their_model_locked_and_deleted_ones_do_not"
    ),
    "INVALID_CHANGE_LEVEL": ("integration/growth/test_growth.py::test_any_other_level_is_refused_with_the_valid_ones"),
    "INVALID_UNIQUE_KEY_DEFINITION": (
        "integration/unique_keys/test_unique_keys.py::test_a_bad_definition_is_refused_and_leaves_the_list_as_it_was"
    ),
    # Entities.
    "ENTITY_NOT_FOUND": f"{HERE}::test_an_unknown_entity_is_not_found",
    "ENTITY_MODIFIED": "integration/growth/test_growth.py::test_an_update_with_a_stale_if_match_teaches_nothing",
    "CONFLICT": "integration/unique_keys/test_unique_keys.py::test_of_two_racers_exactly_one_wins",
    "INCOMPATIBLE_TYPE": "integration/collections/test_bulk.py::test_a_later_chunk_that_fails_leaves_nothing_of_itself",
    "POLYMORPHIC_SLOT": (
        "integration/growth/test_growth.py"
        "::test_documents_of_one_transaction_are_held_against_what_it_has_learnt_itself"
    ),
    "VALIDATION_FAILED": "integration/http/test_workflows.py::test_an_empty_replacement_is_refused",
    "UNIQUE_VIOLATION": "integration/collections/test_bulk.py::test_a_unique_key_stops_its_chunk_alone",
    "INVALID_UNIQUE_KEY": (
        "integration/unique_keys/test_unique_keys.py::test_a_key_in_part_is_refused_before_any_processing"
    ),
    "HISTORY_PRUNED": (
        "integration/history/test_retention.py"
        "::test_every_read_of_a_removed_past_is_refused_and_never_answered_with_nothing"
    ),
    # Workflow and compute.
    "TRANSITION_NOT_FOUND": (
        "integration/schedules/test_arming.py::test_a_scheduled_transition_cannot_be_fired_by_name"
    ),
    "WORKFLOW_FAILED": f"{HERE}::test_a_criterion_that_does_not_hold_fails_the_workflow",
    "WORKFLOW_NOT_FOUND": "integration/http/test_workflows.py::test_a_model_without_workflows_has_none_to_export",
    "WORKFLOW_SCHEMA_VERSION_UNSUPPORTED": (
        "integration/http/test_workflows.py::test_a_newer_contract_is_refused_before_the_model_is_looked_up"
    ),
    "SCHEDULE_FUNCTION_INVALID_RESULT": (
        "integration/schedules/test_schedule_functions.py"
        "::test_a_malformed_answer_rejects_the_write_and_tells_the_client_no_details"
    ),
    "NO_COMPUTE_MEMBER_FOR_TAG": (
        "integration/collections/test_creating.py::test_a_later_chunk_without_a_member_is_reported_by_its_code"
    ),
    "DISPATCH_TIMEOUT": (
        "integration/schedules/test_schedule_functions.py::test_a_silent_member_fails_the_write_after_its_time"
    ),
    "COMPUTE_MEMBER_DISCONNECTED": (
        "integration/engine/test_processors.py::test_a_member_that_leaves_in_the_middle_is_told_and_the_run_undone"
    ),
    "DISPATCH_FORWARD_FAILED": "e2e/test_cluster.py::test_a_node_killed_with_a_callout_on_its_member",
    # Search and statistics.
    "INVALID_CONDITION": ("integration/statistics/test_grouped.py::test_a_bad_condition_is_refused_by_its_own_code"),
    "INVALID_FIELD_PATH": ("integration/statistics/test_grouped.py::test_a_bad_condition_is_refused_by_its_own_code"),
    "CONDITION_TYPE_MISMATCH": (
        "integration/statistics/test_grouped.py::test_a_bad_condition_is_refused_by_its_own_code"
    ),
    "SCAN_BUDGET_EXHAUSTED": (
        "integration/statistics/test_limits.py::test_entities_that_must_be_judged_one_by_one_have_a_budget"
    ),
    "SEARCH_RESULT_LIMIT": "integration/search/test_direct_search.py",
    "SEARCH_JOB_NOT_FOUND": (
        "integration/search/test_search_jobs.py::test_a_job_of_nobody_and_one_of_somebody_else_are_equally_unknown"
    ),
    "SEARCH_JOB_ALREADY_TERMINAL": ("integration/search/test_search_jobs.py::test_a_finished_job_cannot_be_cancelled"),
    "SEARCH_SHARD_TIMEOUT": ("integration/search/test_limits.py::test_a_search_that_takes_too_long_ends_with_a_503"),
    "MALFORMED_REQUEST": GROUPED,
    "MISSING_GROUP_BY": GROUPED,
    "INVALID_GROUP_BY_PATH": GROUPED,
    "DUPLICATE_GROUP_BY": GROUPED,
    "INVALID_AGGREGATION_OP": GROUPED,
    "INVALID_AGGREGATION_FIELD": GROUPED,
    "DUPLICATE_AGGREGATION_ALIAS": GROUPED,
    "INVALID_LIMIT": GROUPED,
    "GROUP_CARDINALITY_EXCEEDED": (
        "integration/statistics/test_limits.py::test_more_groups_than_allowed_are_refused_whatever_the_limit"
    ),
    # Idempotent requests.
    "IDEMPOTENCY_CONFLICT": "integration/idempotency/test_repeats.py::test_another_request_with_the_key_is_refused",
    "IDEMPOTENCY_IN_PROGRESS": (
        "integration/idempotency/test_runs.py::test_a_twin_waits_for_the_first_here_and_is_told_to_come_again_elsewhere"
    ),
    "IDEMPOTENCY_INTERRUPTED": (
        "integration/idempotency/test_runs.py::test_a_run_that_was_cut_off_behind_a_segment_is_never_run_again"
    ),
    "IDEMPOTENCY_KEY_NOT_FOUND": "integration/idempotency/test_runs.py::test_records_are_shown_and_swept",
    # Transactions and cluster.
    "TRANSACTION_EXPIRED": f"{HERE}::test_a_transaction_token_past_its_time_is_gone",
    "TRANSACTION_NOT_FOUND": (
        "integration/transactions/test_joined_callbacks.py::test_a_token_is_refused_once_its_transaction_has_ended"
    ),
    "TRANSACTION_NODE_UNAVAILABLE": ("e2e/test_cluster.py::test_the_owner_of_a_transaction_killed_while_callbacks_run"),
    "STORAGE_UNAVAILABLE": (
        "integration/http/test_public_and_admin_routes.py"
        "::test_a_service_that_lost_its_database_is_alive_and_not_ready_until_it_is_back"
    ),
}
"""A file stands for its tests where several of them produce the code."""

HERE_ONLY = {code for code, test in PRODUCED.items() if test.startswith(HERE)}

NEVER = {
    "reserved in the specification": (
        "EPOCH_MISMATCH", "INVALID_OPERATOR", "INVALID_POINT_IN_TIME",
        "UNKNOWN_MODEL", "CLUSTER_NODE_NOT_REGISTERED", "TX_REQUIRED", "TX_CONFLICT",
        "TX_COORDINATOR_NOT_CONFIGURED", "TX_NO_STATE",
    ),
    "of stores that lack what ours has": ("COMPOSITE_KEY_UNSUPPORTED", "NOT_IMPLEMENTED_BY_BACKEND"),
}  # fmt: skip

IDENTITY = (
    "OIDC_INVALID_TENANT", "OIDC_PROVIDER_DUPLICATE", "OIDC_PROVIDER_NOT_FOUND", "OIDC_PROVIDER_INACTIVE",
    "OIDC_SSRF_BLOCKED",
)  # fmt: skip
"""Of the administration of identity providers: to be tested where it is built."""


@pytest.mark.parametrize("code", PRODUCED)
def test_the_test_that_is_named_speaks_of_its_code(code: str) -> None:
    path, _, name = PRODUCED[code].partition("::")
    tests = dict(functions_of(TESTS / path))
    assert not name or name in tests, f"{path} has no test {name}"
    text = tests[name] if name else "".join(tests.values())
    assert f'"{code}"' in text or f"{code}:" in text, f"{PRODUCED[code]} does not speak of {code}"


def test_every_kind_of_failure_is_produced_by_some_test() -> None:
    texts = [path.read_text() for path in TESTS.rglob("test_*.py") if path.name != Path(__file__).name]
    known = {code for code in codes(Failure) if not code.startswith("STEP_") and code not in HERE_ONLY}
    unspoken = {code for code in known if not any(f'"{code}"' in text or f"{code}:" in text for text in texts)}
    assert unspoken == set()


def test_no_code_stands_in_two_parts_of_the_catalogue() -> None:
    never = [code for codes_ in NEVER.values() for code in codes_]
    everything = [*PRODUCED, *never, *IDENTITY]
    assert len(set(everything)) == len(everything)
    assert not set(never) & codes(Failure)


def codes(kind: type[Failure]) -> set[str]:
    return {kind.code}.union(*(codes(child) for child in kind.__subclasses__()))


@cache
def functions_of(path: Path) -> tuple[tuple[str, str], ...]:
    """The tests of a file with their texts, decorators included."""
    return tuple(_functions_of(path.read_text()))


def _functions_of(source: str) -> Iterator[tuple[str, str]]:
    lines = source.splitlines(keepends=True)
    for node in ast.parse(source).body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
            first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
            yield node.name, "".join(lines[first - 1 : node.end_lineno])


# Codes that no other test is about.


def test_what_is_known_and_not_offered_says_so(api: Api) -> None:
    refused(api.get("/account/subscriptions"), 501, "NOT_IMPLEMENTED")


def test_an_unknown_entity_is_not_found(api: Api) -> None:
    nobody = str(uuid1())
    problem = refused(api.get(f"/entity/{nobody}"), 404, "ENTITY_NOT_FOUND")
    assert problem["properties"]["entityId"] == nobody


def test_an_unlocked_model_takes_no_entities(api: Api) -> None:
    api.import_model()
    refused(api.post("/entity/JSON/prize/1", {"year": 1}), 409, "MODEL_NOT_LOCKED")


def test_a_criterion_that_does_not_hold_fails_the_workflow(api: Api) -> None:
    api.a_model(a_workflow(NEW=[manual("GO", to="GONE", criterion=when("$.year", "LESS_THAN", 1))], GONE=[]))
    entity = api.create().id
    refused(api.put(f"/entity/JSON/{entity}/GO", {"year": 7}), 400, "WORKFLOW_FAILED")


def test_a_transaction_token_past_its_time_is_gone(service: RunningService, api: Api) -> None:
    tokens = copy.copy(service.parts.runtime.core.transactions._tokens)
    tokens._clock = lambda: 0  # it was signed in 1970
    token = tokens.sign(TransactionId(str(uuid1())), "")
    refused(api.get("/model/", X_Tx_Token=token), 410, "TRANSACTION_EXPIRED")


def test_an_unclassified_failure_has_a_ticket_and_no_details(
    service: RunningService, api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fails(*_: object) -> None:
        raise RuntimeError("the password is sesame")

    api.a_model()
    monkeypatch.setattr(service.parts.runtime.core.reader, "get", fails)
    problem = refused(api.get(f"/entity/{uuid1()}"), 500, "SERVER_ERROR")
    assert problem["detail"] == f"SERVER_ERROR: internal error [ticket: {problem['ticket']}]"
