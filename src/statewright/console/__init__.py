"""The web console: pages for people, made of calls to the public API and of nothing else."""
