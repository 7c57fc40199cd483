"""Searching entities: statements of searches, indexes, jobs, grouping and counting."""
