"""Programs of those who work on Statewright; none of them is part of it."""
