"""What all process languages have in common, as values and pure functions: no I/O, no clock, no waiting.

A language compiles its definitions to nets (``statewright.net``) and implements ``ProcessLanguage``; the host
(``statewright.services.processes``) does the rest for each of them alike (docs/process-languages.md).
"""
