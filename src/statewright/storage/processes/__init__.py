"""The tables of processes beside their entities: the queue, the inbox, timers, history, definitions."""
