"""``workflow.v1.WorkflowEngineService``: the JSON step engine over gRPC, on the same port as everything else
(docs/reference/steps.md#grpc).
"""
