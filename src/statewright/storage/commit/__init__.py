"""Committing transactions: the unit of work, its rows, and the statement that applies many of them at once."""
