"""Measurements of the running service against floors taken in the same run; ``python -m benchmarks`` runs them all."""
