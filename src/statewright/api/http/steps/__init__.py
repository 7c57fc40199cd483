"""The REST dialect of the JSON step engine: ``/v1`` beside the context path (spec/step-engine.md §1, §11).

Its clients know nothing of the entity API, so it has rules of its own: two members in an error, any origin may call,
member names in any case. It has a door of its own for that reason, in front of the other one.
"""
