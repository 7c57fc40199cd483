"""The event loop of a process: how long one turn of it may take, what is freed and repeated beside its requests."""
