"""Runs of entities through their workflows: selection, cascade, processors, schedules (docs/reference/workflows.md).

Decisions are pure functions over values; :class:`statewright.engine.engine.Engine` carries them out within a unit of
work, by protocols for the calculation members, tokens and stored tasks that it needs.
"""
