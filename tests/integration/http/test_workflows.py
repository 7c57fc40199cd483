"""Importing and exporting workflows over REST (docs/reference/workflows.md#version,
docs/reference/workflows.md#which-workflow-governs-an-entity, decisions W1, W6, W10).
"""

import json

import pytest

from tests.builders import (
    SAMPLE,
    SEED_IMPORT,
    SEED_REPLACE,
    SEED_WORKFLOW,
    Json,
    a_processor,
    a_workflow,
    automated,
    manual,
    when,
)
from tests.service import Api, done, refused

IMPORT = "/model/prize/1/workflow/import"
EXPORT = "/model/prize/1/workflow/export"

IF_MEANT = "; where that is meant, allowCycles imports it"


@pytest.fixture
def prize(api: Api) -> Api:
    """The API of a tenant with an unlocked model."""
    api.import_model("prize/1", SAMPLE)
    return api


def exported(api: Api) -> list[Json]:
    return list(done(api.get(EXPORT))["workflows"])


def flags(api: Api) -> list[tuple[str, bool]]:
    return [(workflow["name"], workflow["active"]) for workflow in exported(api)]


def imports(api: Api, *workflows: Json, mode: str = "MERGE", **members: Json) -> Json:
    return done(api.post(IMPORT, {"importMode": mode, "workflows": workflows, **members}))


def test_the_workflow_of_the_seed_is_imported_as_printed(prize: Api) -> None:
    response = prize.post(IMPORT, f'{{"importMode": "MERGE", "workflows": [{SEED_WORKFLOW}]}}')
    assert (response.status_code, response.text) == (200, '{"success":true}\n')
    assert response.headers["content-type"] == "application/json"


def test_the_workflow_of_the_seed_is_exported_with_what_it_says_and_no_defaults(prize: Api) -> None:
    done(prize.post(IMPORT, f'{{"workflows": [{SEED_WORKFLOW}]}}'))
    processor = {
        "type": "EXTERNAL",
        "name": "notify-approval",
        "executionMode": "SYNC",
        "config": {
            "attachEntity": True,
            "calculationNodesTags": "approval-service",
            "responseTimeoutMs": 30000,
        },
    }
    year_is_2024 = {"type": "simple", "jsonPath": "$.year", "operatorType": "EQUALS", "value": "2024"}
    assert done(prize.get(EXPORT)) == {
        "entityName": "prize",
        "modelVersion": 1,
        "workflows": [
            {
                "version": "1",
                "name": "prize-lifecycle",
                "desc": "State machine for Nobel Prize entities",
                "initialState": "NEW",
                "active": True,
                "criterion": None,
                "states": {
                    "APPROVED": {},
                    "NEW": {
                        "transitions": [
                            {
                                "name": "APPROVE",
                                "next": "APPROVED",
                                "manual": True,
                                "criterion": None,
                                "processors": [processor],
                            },
                            {"name": "AUTO_VALIDATE", "next": "VALIDATED", "manual": False, "criterion": year_is_2024},
                        ]
                    },
                    "VALIDATED": {},
                },
            }
        ],
    }


def test_an_export_can_be_imported_again_and_comes_back_the_same(prize: Api) -> None:
    rich = a_workflow(
        "rich",
        annotations={"displayName": "Rich", "nested": [1, 2.50, None]},
        criterion=when("$.year", "GREATER_THAN", 1900),
        criterionAnnotations={},
        NEW=[
            automated("TAKE", to="TAKEN", criterion=when("category", "IS_NULL"), disabled=True),
            manual("ASK", to="TAKEN", processors=[a_processor(responseTimeoutMs=5, context="x", attachEntity=False)]),
        ],
        TAKEN=[
            {"name": "LATER", "next": "NEW", "schedule": {"delayMs": 1000, "timeoutMs": 0}},
        ],
    )
    imports(prize, json.loads(SEED_WORKFLOW), rich, mode="REPLACE")
    first = prize.get(EXPORT).text
    done(prize.post(IMPORT, {"importMode": "REPLACE", "workflows": json.loads(first)["workflows"]}))
    assert prize.get(EXPORT).text == first


def test_a_strict_workflow_is_exported_under_the_current_version_and_a_seed_one_under_its_own(prize: Api) -> None:
    imports(prize, a_workflow("strict", version="1.1", A=[]), a_workflow("seed", version="draft", A=[]))
    assert [(workflow["name"], workflow["version"]) for workflow in exported(prize)] == [
        ("strict", "1.3"),
        ("seed", "draft"),
    ]


def test_attach_entity_is_exported_even_when_false(prize: Api) -> None:
    imports(prize, a_workflow(A=[manual("GO", to="A", processors=[a_processor(attachEntity=False)])]))
    [processor] = exported(prize)[0]["states"]["A"]["transitions"][0]["processors"]
    assert processor["config"] == {"attachEntity": False, "calculationNodesTags": "node"}


def test_the_seed_examples_follow_each_other(prize: Api) -> None:
    done(prize.post(IMPORT, SEED_IMPORT))
    done(prize.post(IMPORT, SEED_REPLACE))
    assert flags(prize) == [("simple-wf", True)]


def test_a_merge_replaces_in_place_and_appends(prize: Api) -> None:
    imports(prize, a_workflow("a", OLD=[]), a_workflow("b", B=[]))
    imports(prize, a_workflow("c", C=[]), a_workflow("a", NEW=[], active=False))
    assert flags(prize) == [("a", False), ("b", True), ("c", True)]
    assert list(exported(prize)[0]["states"]) == ["NEW"]


def test_an_activation_silences_the_others_and_moves_its_own_to_the_end(prize: Api) -> None:
    imports(prize, a_workflow("a", A=[]), a_workflow("b", B=[]), a_workflow("c", C=[]))
    imports(prize, a_workflow("b", B=[]), mode="activate")
    assert flags(prize) == [("a", False), ("c", False), ("b", True)]


def test_an_empty_merge_changes_nothing(prize: Api) -> None:
    imports(prize, a_workflow("a", A=[]))
    assert imports(prize) == {"success": True}
    assert flags(prize) == [("a", True)]


@pytest.mark.parametrize("mode", ["REPLACE", "ACTIVATE"])
def test_an_empty_replacement_is_refused(prize: Api, mode: str) -> None:
    problem = refused(prize.post(IMPORT, {"importMode": mode}), 400, "VALIDATION_FAILED")
    assert problem["detail"] == (
        "VALIDATION_FAILED: empty workflows array not allowed in REPLACE/ACTIVATE mode — "
        "use MERGE if you intended a no-op"
    )


def test_a_model_without_workflows_has_none_to_export(prize: Api) -> None:
    problem = refused(prize.get(EXPORT), 404, "WORKFLOW_NOT_FOUND")
    assert problem["detail"] == "WORKFLOW_NOT_FOUND: no workflows found for model prize/1"
    assert problem["properties"] == {"errorCode": "WORKFLOW_NOT_FOUND"}


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ("", "invalid JSON: "),
        ("[]", "invalid JSON: "),
        ('{"workflows": {}}', "invalid JSON: "),
        ('{"importMode": 1}', "invalid JSON: "),
        ('{"importMode": "MERGE"} {}', "invalid JSON: trailing data after request object"),
        (
            '{"importMode": "MERGE", "surplus": 1}',
            'invalid JSON: unknown field "surplus"; known: allowCycles, entityName, importMode',
        ),
        ('{"importMode": "upsert"}', "unknown importMode: UPSERT"),
    ],
)
def test_a_malformed_request_is_refused_before_the_model_is_looked_up(api: Api, body: str, text: str) -> None:
    problem = refused(api.post(IMPORT, body), 400, "BAD_REQUEST")
    assert problem["detail"].startswith(f"BAD_REQUEST: {text}")


def test_an_unknown_member_of_a_strict_workflow_is_named(prize: Api) -> None:
    misspelt = a_workflow(A=[{"name": "GO", "next": "A", "manuel": True}])
    problem = refused(prize.post(IMPORT, {"workflows": [misspelt]}), 400, "BAD_REQUEST")
    assert problem["detail"].startswith(
        'BAD_REQUEST: invalid JSON: unknown field "manuel" at workflows[0].states.A.transitions[0]; known: annotations'
    )


def test_an_unknown_member_of_a_seed_workflow_is_ignored(prize: Api) -> None:
    imports(prize, a_workflow(version="1", A=[{"name": "GO", "next": "B", "manuel": True}], B=[]))
    assert exported(prize)[0]["states"]["A"] == {"transitions": [{"name": "GO", "next": "B", "manual": False}]}


def test_a_newer_contract_is_refused_before_the_model_is_looked_up(api: Api) -> None:
    response = api.post(IMPORT, {"workflows": [a_workflow("w", version="1.4", A=[])]})
    problem = refused(response, 400, "WORKFLOW_SCHEMA_VERSION_UNSUPPORTED")
    assert problem["detail"].startswith(
        'WORKFLOW_SCHEMA_VERSION_UNSUPPORTED: workflow "w": workflow schema minor version too new: '
    )


def test_the_model_is_looked_up_before_the_structure_is_checked(api: Api) -> None:
    refused(api.post(IMPORT, {"workflows": [a_workflow(initial="NOWHERE", A=[])]}), 404, "MODEL_NOT_FOUND")


@pytest.mark.parametrize(
    ("workflow", "text"),
    [
        (a_workflow("w", initial="X", A=[]), 'workflow "w": initialState "X" is not declared in states'),
        (
            a_workflow("w", A=[manual("GO", to="X")]),
            'workflow "w" state "A" transition "GO": next state "X" is not declared in states',
        ),
        (
            a_workflow("w", A=[manual("GO", to="A"), manual("GO", to="A")]),
            'workflow "w" state "A": duplicate transition name "GO"',
        ),
        (
            a_workflow("w", A=[automated("AB", to="B")], B=[automated("BA", to="A")]),
            f'workflow "w": infinite loop detected: A -> B -> A via unguarded automated transitions{IF_MEANT}',
        ),
        (
            a_workflow("w", A=[manual("GO", to="A", processors=[a_processor("p", mode="EVENTUALLY")])]),
            (
                'workflow "w" state "A" processor "p": unknown executionMode "EVENTUALLY" '
                "(allowed: SYNC, ASYNC_SAME_TX, ASYNC_NEW_TX, COMMIT_BEFORE_DISPATCH, or empty)"
            ),
        ),
        (
            a_workflow("w", A=[manual("GO", to="A", processors=[a_processor("p", startNewTxOnDispatch=True)])]),
            (
                'workflow "w" transition "GO" processor "p": startNewTxOnDispatch=true is only valid with '
                'executionMode=COMMIT_BEFORE_DISPATCH (got "SYNC")'
            ),
        ),
        (a_workflow("w", annotations=[], A=[]), 'workflow "w": annotations must be a JSON object'),
        (
            a_workflow("w", criterion=when("$.year", "MATCHES_PATTERN", "("), A=[]),
            'workflow "w": invalid MATCHES_PATTERN regex "(": ',
        ),
    ],
)
def test_static_checks_refuse_with_their_text_and_save_nothing(prize: Api, workflow: Json, text: str) -> None:
    problem = refused(prize.post(IMPORT, {"workflows": [a_workflow("fine", A=[]), workflow]}), 400, "VALIDATION_FAILED")
    assert problem["detail"].startswith(f"VALIDATION_FAILED: {text}")
    refused(prize.get(EXPORT), 404, "WORKFLOW_NOT_FOUND")


def test_cycles_are_allowed_on_demand(prize: Api) -> None:
    looping = a_workflow("w", A=[automated("AB", to="B")], B=[automated("BA", to="A")])
    imports(prize, looping, allowCycles=True)
    prize.lock()
    problem = refused(prize.post("/entity/JSON/prize/1", SAMPLE), 400, "WORKFLOW_FAILED")
    assert problem["detail"] == 'WORKFLOW_FAILED: state machine aborted: state "A" visited 11 times (limit: 10)'


def test_a_stored_cycle_makes_later_imports_fail(prize: Api) -> None:
    imports(prize, a_workflow("loop", A=[automated("SELF", to="A")]), allowCycles=True)
    problem = refused(prize.post(IMPORT, {"workflows": [a_workflow("fine", A=[])]}), 400, "VALIDATION_FAILED")
    assert 'workflow "loop": infinite loop detected: A -> A' in problem["detail"]


def test_a_locked_model_takes_workflows_too(prize: Api) -> None:
    prize.lock()
    assert imports(prize, a_workflow("late", A=[])) == {"success": True}


def test_an_import_takes_effect_with_the_next_request(prize: Api) -> None:
    prize.lock()
    assert prize.state(prize.create().id) == "CREATED"
    imports(prize, a_workflow("w", FIRST=[]))
    assert prize.state(prize.create().id) == "FIRST"
    imports(prize, a_workflow("w", SECOND=[]))
    assert prize.state(prize.create().id) == "SECOND"


def test_an_import_over_the_limit_is_unreadable(prize: Api) -> None:
    body = json.dumps({"workflows": [a_workflow(desc="x" * (10 * 1024 * 1024), A=[])]})
    problem = refused(prize.post(IMPORT, body), 413, "BAD_REQUEST")
    assert problem["detail"].startswith("BAD_REQUEST: failed to read request body: ")


def test_a_version_in_the_path_that_is_no_integer_is_a_binding_error(api: Api) -> None:
    problem = refused(api.post("/model/prize/one/workflow/import", "{"), 400, "BAD_REQUEST")
    assert problem["properties"] == {"errorCode": "BAD_REQUEST", "parameter": "modelVersion"}


def test_the_known_contracts_are_told_to_everybody(api: Api) -> None:
    response = Api(api.url).get("/help/workflows/schema-version/versions")
    assert response.text == '{"current":"1.3","supported":[{"major":1,"maxMinor":3,"minMinor":1}]}\n'


def test_the_seed_workflow_validates_a_prize_of_the_year_by_itself(prize: Api) -> None:
    """The sample's year is a number and the operand a text: the operand is read by the declared type."""
    done(prize.post(IMPORT, f'{{"workflows": [{SEED_WORKFLOW}]}}'))
    prize.lock()
    assert prize.state(prize.create({"category": "physics", "year": 2024}).id) == "VALIDATED"
    assert prize.state(prize.create({"category": "physics", "year": 2023}).id) == "NEW"


def test_the_seed_workflow_validates_a_year_in_quotes_too(api: Api) -> None:
    api.import_model("prize/1", {"category": "physics", "year": "2024"})
    done(api.post(IMPORT, f'{{"workflows": [{SEED_WORKFLOW}]}}'))
    api.lock()
    assert api.state(api.create({"category": "physics", "year": "2024"}).id) == "VALIDATED"
    assert api.state(api.create({"category": "physics", "year": "2023"}).id) == "NEW"


@pytest.mark.parametrize("version", ["1", "1.3"])
def test_an_export_is_imported_again_as_it_is(prize: Api, version: str) -> None:
    """Decision W15."""
    imports(prize, a_workflow("w", A=[manual("GO", to="B")], B=[]) | {"version": version})
    before = prize.get(EXPORT).text
    assert done(prize.post(IMPORT, before)) == {"success": True}
    assert prize.get(EXPORT).text == before


@pytest.mark.parametrize("path", ["prize/2", "medal/1"])
def test_an_export_is_not_imported_into_another_model(prize: Api, path: str) -> None:
    """Decision W15."""
    imports(prize, a_workflow("w", A=[]))
    prize.import_model(path, SAMPLE)
    problem = refused(prize.post(f"/model/{path}/workflow/import", prize.get(EXPORT).text), 400, "BAD_REQUEST")
    assert "but the path names" in problem["detail"]


HOPELESS = a_workflow(
    "hopeless",
    A=[
        automated("TYPO", to="B", criterion=when("$.yaer", "EQUALS", 2024)),
        manual("ASK", to="B", criterion={"type": "function", "function": {"name": "check"}}),
    ],
    B=[],
)
FINDINGS = [
    {"workflow": "hopeless", "state": "A", "transition": "TYPO", "message": 'the model has no field "$.yaer"'},
    {
        "workflow": "hopeless",
        "state": "A",
        "transition": "ASK",
        "message": 'function "check" has no calculationNodesTags: any member of the tenant may be asked',
    },
]


def test_criteria_that_match_nothing_are_told_on_demand_and_logged(
    prize: Api, capfd: pytest.CaptureFixture[str]
) -> None:
    """Decision W11."""
    assert done(prize.post(f"{IMPORT}?warnings=true", {"workflows": [HOPELESS]})) == {
        "success": True,
        "warnings": FINDINGS,
    }
    lines = [line for line in capfd.readouterr().out.splitlines() if "workflow_criterion_doubtful" in line]
    assert len(lines) == 2
    assert all(part in lines[0] for part in ("hopeless", "TYPO", "$.yaer"))


def test_a_misspelt_member_that_the_first_release_ignores_is_told_on_demand(prize: Api) -> None:
    ignoring = {**a_workflow("w", A=[{**manual("GO", to="B"), "procesors": []}], B=[]), "version": "1.0"}
    told = done(prize.post(f"{IMPORT}?warnings=true", {"workflows": [ignoring]}))["warnings"]
    message = "/workflows/0/states/A/transitions/0/procesors is not known and has no effect"
    assert told == [{"workflow": "w", "state": None, "transition": None, "message": message}]


def test_a_criterion_whose_path_has_another_name_is_told_to_match_nothing(prize: Api) -> None:
    criterion = {"type": "simple", "path": "$.year", "operatorType": "EQUALS", "value": 2024}
    ignoring = a_workflow("w", A=[automated("GO", to="B", criterion=criterion)], B=[])
    [told] = done(prize.post(f"{IMPORT}?warnings=true", {"workflows": [ignoring]}))["warnings"]
    assert told["message"] == "a simple condition has no jsonPath: it matches nothing"


def test_findings_are_no_part_of_an_ordinary_answer(prize: Api) -> None:
    assert imports(prize, HOPELESS) == {"success": True}


def test_a_dry_run_checks_everything_and_saves_nothing(prize: Api) -> None:
    check = done(prize.post(f"{IMPORT}?dryRun=true", {"workflows": [HOPELESS]}))
    assert check["importable"] is True
    assert {each["message"] for each in FINDINGS} <= {each["message"] for each in check["findings"]}
    refused(prize.get(EXPORT), 404, "WORKFLOW_NOT_FOUND")


def test_a_dry_run_says_what_an_import_would_be_refused_for(prize: Api) -> None:
    looping = {"workflows": [a_workflow("w", A=[automated("SELF", to="A")])]}
    check = done(prize.post(f"{IMPORT}?dryRun=true", looping))
    assert (check["importable"], check["findings"][0]["severity"]) == (False, "ERROR")
    problem = refused(prize.post(IMPORT, looping), 400, "VALIDATION_FAILED")
    assert check["findings"][0]["message"] in problem["detail"]


def test_a_dry_run_is_refused_where_there_is_nothing_to_check(prize: Api) -> None:
    refused(prize.post(f"{IMPORT}?dryRun=true", "{"), 400, "BAD_REQUEST")
    refused(prize.post("/model/nobody/1/workflow/import?dryRun=true", {"workflows": []}), 404, "MODEL_NOT_FOUND")
    stale = refused(prize.post(f"{IMPORT}?dryRun=true", {"workflows": []}, If_Match="7"), 412, "REVISION_MISMATCH")
    assert stale["properties"]["currentRevision"] == 0


@pytest.mark.parametrize("criterion", [{"type": "bogus"}, "$.total > 1", when("$.year", "IS_CHANGED")], ids=str)
def test_a_criterion_that_can_never_be_evaluated_is_refused_under_the_strict_contract(
    prize: Api, criterion: Json
) -> None:
    workflow = a_workflow("w", A=[manual("GO", to="A", criterion=criterion)])
    problem = refused(prize.post(IMPORT, {"workflows": [workflow]}), 400, "VALIDATION_FAILED")
    assert problem["detail"].startswith('VALIDATION_FAILED: workflow "w" state "A" transition "GO": ')
    assert imports(prize, workflow | {"version": "1"}) == {"success": True}
