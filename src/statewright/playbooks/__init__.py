"""The playbook language: steps as transitions of a Petri net, arcs that carry arguments, an end by quiescence
(docs/reference/playbooks.md).

A text becomes a :class:`Playbook` (:func:`read_playbook`). All of it is pure: functions over values, without I/O, clock
or waiting.
"""

from statewright.playbooks.definition import Playbook
from statewright.playbooks.place import Finding, InvalidPlaybook
from statewright.playbooks.reading import Reading, compile_playbook, read_playbook

__all__ = [
    "Finding",
    "InvalidPlaybook",
    "Playbook",
    "Reading",
    "compile_playbook",
    "read_playbook",
]
