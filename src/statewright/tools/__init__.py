"""A worker that does the usual kinds of tasks of public playbooks: ``python``, ``shell``, ``postgres``, ``duckdb`` and
``http`` (docs/guides/tools.md). It runs beside the service and never inside it, and imports nothing of it.

Each task is a process of its own that another one watches (:mod:`statewright.tools.guard`): limits keep what goes wrong
from the machine. They are no sandbox against an author who means harm.
"""
