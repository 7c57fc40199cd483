"""The host of processes: what running instances take, whatever the language of their definitions.

An instance is an entity of a built-in model, advanced by pure functions of its language: loaded, decided, committed
with everything that it amounts to (``advancing``). Around that are the queue of jobs and their leases, pushed jobs,
timers, successors, the inbox of user tasks, lists and removal by age. A language is known by the protocol
``ProcessLanguage`` only (``statewright.processes.language``); docs/process-languages.md says how one is added.
"""
