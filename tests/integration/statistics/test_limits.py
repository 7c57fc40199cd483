"""What a statistic may cost (docs/reference/entities.md#the-groups,
docs/reference/entities.md#conditions-of-grouped-statistics).
"""

from collections.abc import Iterator

import pytest

from tests.builders import when
from tests.database import Template
from tests.service import Api, done, hosted, refused

PATH = "/entity/stats/prize/1/query"
BY_YEAR = {"groupBy": ["$.year"]}


@pytest.fixture(scope="module")
def api(database_template: Template) -> Iterator[Api]:
    """The API of a service that forms three groups at most."""
    with hosted(database_template.clone(), stats_group_max=3) as service:
        yield service.api("tenant")


def test_more_groups_than_allowed_are_refused_whatever_the_limit(api: Api) -> None:
    api.a_model()
    for year in (2020, 2021, 2022):
        api.create({"year": year})
    assert len(done(api.post(PATH, BY_YEAR))) == 3
    api.create({"year": 2023})
    refused(api.post(PATH, BY_YEAR), 422, "GROUP_CARDINALITY_EXCEEDED")
    refused(api.post(PATH, {**BY_YEAR, "limit": 1}), 422, "GROUP_CARDINALITY_EXCEEDED")
    assert len(done(api.post(PATH, {"groupBy": ["state"]}))) == 1
    refused(api.post(PATH, {**BY_YEAR, "limit": 4}), 400, "INVALID_LIMIT")


def test_entities_that_must_be_judged_one_by_one_have_a_budget(database_template: Template) -> None:
    with hosted(database_template.clone(), search_scan_budget=2) as service:
        api = service.api("tenant")
        api.a_model()
        judged = {"groupBy": ["state"], "condition": when("$.category", "MATCHES_PATTERN", "p.*")}
        narrowed = {"groupBy": ["state"], "condition": when("$.year", "GREATER_THAN", 0)}
        for _ in range(2):
            api.create()
        assert done(api.post(PATH, judged))[0]["count"] == 2
        api.create()
        refused(api.post(PATH, judged), 400, "SCAN_BUDGET_EXHAUSTED")
        assert done(api.post(PATH, narrowed))[0]["count"] == 3
