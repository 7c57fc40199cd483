"""Spans by OpenTelemetry, sent to a collector by OTLP over HTTP (docs/reference/traces.md).

The only package that knows the libraries, which are an extra of the installation: it is imported where traces are
switched on. Endpoint, headers, time limit and resource attributes are those of the standard ``OTEL_*`` variables,
which the libraries read themselves.
"""
