"""The step dialect in the OpenAPI document (spec/step-engine.md §11)."""
