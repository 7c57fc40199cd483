"""The REST interface of flows: ``/v1/flows`` (docs/reference/flows.md#rest). Their jobs are those of ``/v1/jobs``.

It looks like the dialect of the step engine, whose workers do its tasks, but says in an error also where the text of a
flow has a defect.
"""
