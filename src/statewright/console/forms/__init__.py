"""Forms made of JSON schemas, and documents made of what was typed into them, numbers exact.

Pure. A field is named by the JSON Pointer of its member (RFC 6901), so that the errors of a validation find it. What a
form cannot offer is a field for JSON.
"""
