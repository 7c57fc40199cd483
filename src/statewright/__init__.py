"""Statewright: entities, versioned models and transactional workflows on PostgreSQL."""
