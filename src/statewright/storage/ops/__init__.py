"""What the operations API reads and records."""
