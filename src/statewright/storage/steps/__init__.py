"""The step engine's tables beside its entities: the queue, the inbox, timers, history, definitions."""
