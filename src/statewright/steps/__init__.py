"""The JSON step engine: definitions of the *Workflow JSON Format* run as instances (seed 000).

:mod:`statewright.steps.core` is the engine itself, pure; what hosts it on entities, jobs and timers surrounds it.
"""
