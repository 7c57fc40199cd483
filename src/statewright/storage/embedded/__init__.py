"""The embedded PostgreSQL server: its data directory, how it is launched, watched and cleaned up after."""
