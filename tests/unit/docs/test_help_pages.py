"""Help is the documentation: every topic is there, and says what its page says (docs/reference/service.md#help)."""

import tomllib
from pathlib import Path

import pytest

from statewright.api.http.help.topics import build_topics
from statewright.documentation.sources import SOURCES, PageNotInstalled, extract_section, list_error_rows, read_page
from statewright.failures import list_kinds

ROOT = Path(__file__).parents[3]
TOPICS = {topic.id: topic for topic in build_topics()}

EXPECTED = [
    "admin",
    "analytics",
    "audit",
    "auth",
    "cli",
    "cloudevents",
    "cluster",
    "config",
    "crud",
    "errors",
    "grpc",
    "helm",
    "messages",
    "models",
    "openapi",
    "predicates",
    "quickstart",
    "run",
    "search",
    "telemetry",
    "workflows",
    "auth.clients",
    "auth.oidc",
    "auth.tokens",
    "auth.trusted-keys",
    "cli.health",
    "cli.help",
    "cli.init",
    "cli.migrate",
    "cli.serve",
    "config.auth",
    "config.cluster",
    "config.cors",
    "config.database",
    "config.grpc",
    "config.scheduler",
    "config.schema",
    "workflows.schema-version",
]
"""What readers of other servers of the dialect look for."""


def test_every_topic_that_readers_look_for_is_there():
    assert set(EXPECTED) - TOPICS.keys() == set()


@pytest.mark.parametrize("topic", [topic for topic, source in SOURCES.items() if not source.section])
def test_a_topic_is_its_page_word_for_word(topic: str):
    assert TOPICS[topic].body == (ROOT / "docs" / SOURCES[topic].page).read_text()


@pytest.mark.parametrize("topic", [topic for topic, source in SOURCES.items() if source.section])
def test_a_topic_that_is_a_section_stands_in_its_page(topic: str):
    assert TOPICS[topic].body.strip() in (ROOT / "docs" / SOURCES[topic].page).read_text()


def test_every_page_of_help_goes_into_the_wheel():
    wheel = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]["wheel"]
    included = wheel["force-include"]
    assert all(target == f"statewright/{source}" and (ROOT / source).exists() for source, target in included.items())
    for source in SOURCES.values():
        assert any(f"docs/{source.page}".startswith(path) for path in included), source.page


def test_every_code_has_a_row_in_the_page_of_errors_and_a_page_of_its_own():
    codes = {kind.code for kind in list_kinds()}
    rows = list_error_rows()
    assert codes - rows.keys() == set()
    for code in rows.keys() | codes:
        body = TOPICS[f"errors.{code}"].body
        assert all(when in body for _, when, _ in rows[code]), code


def test_a_code_of_other_servers_says_that_it_is_one():
    assert "this one does not" in TOPICS["errors.TX_CONFLICT"].body
    assert "this one does not" not in TOPICS["errors.CONFLICT"].body


@pytest.mark.parametrize(
    "word",
    [
        "initialState",
        "active",
        "criterion",
        "transitions",
        "manual",
        "disabled",
        "processors",
        "schedule",
        "executionMode",
        "SYNC",
        "ASYNC_SAME_TX",
        "ASYNC_NEW_TX",
        "COMMIT_BEFORE_DISPATCH",
        "startNewTxOnDispatch",
        "attachEntity",
        "calculationNodesTags",
        "responseTimeoutMs",
        "retryPolicy",
        "context",
        "simple",
        "lifecycle",
        "group",
        "array",
        "function",
        "MERGE",
        "REPLACE",
        "ACTIVATE",
        "previousTransition",
        "creationDate",
        "TRANSITION_NOT_FOUND",
        "WORKFLOW_NOT_FOUND",
        "WORKFLOW_FAILED",
        "NO_COMPUTE_MEMBER_FOR_TAG",
        "COMPUTE_MEMBER_DISCONNECTED",
        "VALIDATION_FAILED",
        "idempotent",
        "STATEWRIGHT_MAX_STATE_VISITS",
        "visit limit",
        "STATE_MACHINE_FINISH",
    ],
)
def test_the_topic_of_workflows_names_everything_that_a_definition_can_say(word: str):
    assert word in TOPICS["workflows"].body


def test_a_section_ends_where_the_next_of_its_level_begins_whatever_code_says():
    page = "# T\n\n## A\n\n```\n## no heading\n```\n\n### B\n\nb\n\n## C\n\nc\n"
    assert extract_section(page, "A") == "## A\n\n```\n## no heading\n```\n\n### B\n\nb\n"
    with pytest.raises(PageNotInstalled):
        extract_section(page, "no heading")
    with pytest.raises(PageNotInstalled):
        read_page("reference/nothing.md")


def test_the_readme_is_short():
    assert len((ROOT / "README.md").read_text().split()) < 700
