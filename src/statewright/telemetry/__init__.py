"""Logs, times and traces: what a process tells of itself (docs/reference/service.md#logs, docs/reference/traces.md).

Spans by OpenTelemetry are sent to a collector by OTLP over HTTP. ``tracer`` and ``sampling`` import the libraries,
which are an extra of the installation: so they are imported where traces are switched on. Endpoint, headers, time limit
and resource attributes are those of the standard ``OTEL_*`` variables, which the libraries read themselves.
"""
