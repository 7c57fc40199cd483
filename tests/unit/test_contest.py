"""What `make bench` measures (docs/benchmarks.md)."""

from benchmarks.contest import OPERATIONS, Results, Sample, heats


def test_the_service_is_measured_at_every_number_of_clients_with_and_without_a_floor() -> None:
    results = Results()
    for heat in heats(OPERATIONS, (1, 16, 64)):
        for contender in heat.contenders:
            results.add(heat, contender, Sample(rate=1.0))
    assert all(results.has(operation, clients, "statewright") for operation in OPERATIONS for clients in (1, 16, 64))
