"""The tables at the end of a run."""

import os
import subprocess
import sys
from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from benchmarks.contest import COMPARISONS, NAMES, TARGET_CLIENTS, Comparison, Results, Sample
from benchmarks.jobs import Operation

QUIET = 0.1
"""Share of the machine that others may take without being mentioned."""


def show(console: Console, results: Results, operations: Sequence[Operation], clients: Sequence[int]) -> None:
    """Rates and ratios, noise, verdict."""
    console.print(_rates(results, operations, clients))
    console.print(_ratios(results, operations, clients))
    _show_noise(console, results)
    _show_verdict(console, results)


_TELL_INTERPRETER = (
    "import platform as p; print(p.python_implementation(), p.python_version(), *p.python_build(), p.python_compiler())"
)


def show_machine(console: Console, share: float | None = None, *, interpreter: str = sys.executable) -> None:
    """What ran the programs, and how far the machine was ours: the ``share`` that others used, if it was measured."""
    told = subprocess.check_output([interpreter, "-c", _TELL_INTERPRETER], text=True)
    console.print(f"{told.strip()}; {os.cpu_count()} processors.")
    if share is not None:
        console.print(f"Other programs used {share:.0%} of the machine meanwhile.")
    if share is not None and share > QUIET:
        console.print(
            "[bold yellow]Not a quiet machine:[/] a service of one process loses more to them than floors that are "
            "spread over many; the ratio of processor times suffers least."
        )


def _rates(results: Results, operations: Sequence[Operation], clients: Sequence[int]) -> Table:
    title = "The service over HTTP, closed loop: medians of the rounds, processor time for each operation"
    table = _table(
        title, "operation", "clients", "ops/s", "p50 ms", "p99 ms", "service µs", "PostgreSQL µs", "client µs"
    )
    for operation in operations:
        for number in clients:
            sample = results.median(operation, number, "statewright")
            latencies = [_figure(value, 2) for value in (sample.p50, sample.p99)]
            costs = [_figure(value, 0) for value in (sample.server_us, sample.database_us, sample.client_us)]
            table.add_row(operation, str(number), f"{sample.rate:,.0f}", *latencies, *costs)
        table.add_section()
    return table


def _ratios(results: Results, operations: Sequence[Operation], clients: Sequence[int]) -> Table:
    title = "Against the floors of the same rounds: median ratio (lowest to highest)"
    columns = "operation", "clients", "floor", "floor ops/s", "p50 ms", "ratio", "in CPU", "target", ""
    table = _table(title, *columns)
    for comparison in COMPARISONS:
        for number in clients:
            is_measured = results.has(comparison.operation, number, comparison.ours) and results.has(
                comparison.operation, number, comparison.floor
            )
            if comparison.operation in operations and is_measured:
                table.add_row(*_comparison_row(results, comparison, number))
    table.caption = "in CPU: processor time of floor and PostgreSQL for an operation, by that of service and PostgreSQL"
    return table


def _comparison_row(results: Results, comparison: Comparison, clients: int) -> tuple[str, ...]:
    operation, ours = comparison.operation, comparison.ours
    floor = results.median(operation, clients, comparison.floor)
    ratio = results.ratio(operation, clients, ours, comparison.floor)
    is_judged = comparison.target is not None and clients == TARGET_CLIENTS
    met = comparison.target is not None and ratio.median >= comparison.target
    return (
        operation if ours == "statewright" else NAMES[ours],
        str(clients),
        NAMES[comparison.floor],
        f"{floor.rate:,.0f}",
        _figure(floor.p50, 2),
        f"{ratio.median:.2f} ({ratio.low:.2f}–{ratio.high:.2f})",
        _in_processor_time(results.median(operation, clients, ours), floor) if comparison.floor != "echo" else "",
        f"≥ {comparison.target:.2f}" if is_judged else "",
        ("[green]met" if met else "[bold red]MISSED") if is_judged else "",
    )


def _in_processor_time(ours: Sample, floor: Sample) -> str:
    if ours.total_us is None or floor.total_us is None:
        return ""
    return f"{floor.total_us / ours.total_us:.2f}"


def _show_noise(console: Console, results: Results) -> None:
    if not results.has("transition", TARGET_CLIENTS, "asyncpg again"):
        return
    noise = results.ratio("transition", TARGET_CLIENTS, "asyncpg again", "asyncpg")
    console.print(
        f"Noise: the floor of transition at {TARGET_CLIENTS} clients was measured twice in every round and differs "
        f"from itself by {abs(noise.median - 1):.0%} (single rounds {noise.low:.2f}–{noise.high:.2f})."
    )


def _show_verdict(console: Console, results: Results) -> None:
    judged = [
        (comparison, results.ratio(comparison.operation, TARGET_CLIENTS, comparison.ours, comparison.floor).median)
        for comparison in COMPARISONS
        if comparison.target is not None and results.has(comparison.operation, TARGET_CLIENTS, comparison.floor)
    ]
    missed = [
        f"{comparison.operation} {ratio:.2f} of {comparison.target:.2f}"
        for comparison, ratio in judged
        if comparison.target is not None and ratio < comparison.target
    ]
    if not judged:
        console.print(f"No target was judged: targets are for {TARGET_CLIENTS} clients.")
    elif missed:
        console.print(f"[bold red]{len(missed)} of {len(judged)} targets MISSED:[/] {', '.join(missed)}")
    else:
        console.print(f"[bold green]All {len(judged)} targets met.")


def _table(title: str, *columns: str) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold", caption_justify="left")
    for column in columns:
        table.add_column(column, justify="left" if column in {"operation", "floor", ""} else "right", no_wrap=True)
    return table


def _figure(value: float | None, decimals: int) -> str:
    return "" if value is None else f"{value:,.{decimals}f}"
