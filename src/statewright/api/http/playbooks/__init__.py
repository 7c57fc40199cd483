"""The REST interface of playbooks: ``/v1/playbooks`` and ``/v1/executions`` (docs/reference/executions.md#rest). Their
jobs are those of ``/v1/jobs``.

Errors are as those of flows; that of a document says all that is wrong with it in ``findings``.
"""
