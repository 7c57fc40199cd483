"""The playbook language: steps as transitions of a Petri net, arcs that carry arguments, an end by quiescence
(docs/reference/playbooks.md).

A document becomes a :class:`~statewright.playbooks.definition.Playbook`. All of it is pure: functions over values,
without I/O, clock or waiting.
"""
