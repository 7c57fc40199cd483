"""What the HTTP interfaces of all process languages share: the table of their routes, bodies and parameters, and the
form of their errors (docs/reference/steps.md#conventions).
"""
