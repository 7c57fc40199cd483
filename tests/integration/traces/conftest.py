"""A service with OpenTelemetry switched on, and the collector that it sends its spans to."""

from collections.abc import Iterator

import pytest

from tests.collector import Collector, a_collector
from tests.database import Template
from tests.service import Api, RunningService, hosted


@pytest.fixture(scope="module")
def collector() -> Iterator[Collector]:
    """The collector of a module's tests."""
    with a_collector() as listening:
        yield listening


@pytest.fixture(scope="module")
def traced(collector: Collector, database_template: Template) -> Iterator[RunningService]:
    """The service that makes spans."""
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.endpoint)
        environment.setenv("OTEL_TRACES_SAMPLER", "parentbased_always_on")
        with hosted(database_template.clone(), otel_enabled=True, node_id="n1") as running:
            yield running


@pytest.fixture
def traced_api(traced: RunningService, tenant: str) -> Api:
    """The API of that service, as alice of this test's tenant sees it."""
    return traced.api(tenant)
