"""Prometheus metrics of one process (docs/reference/service.md#metrics, docs/reference/metrics.md).

Requests are counted in plain integers, and turned into metrics when they are asked for: the library's own counters take
several microseconds of every request. So it is with what the other packages count, each on its own; here is a collector
for each subject, and the registry of them all.

To add a metric, count it there, yield it in the collector of its subject here, and describe it in
docs/reference/metrics.md.
"""

from statewright.metrics.registry import Metrics

__all__ = ["Metrics"]
