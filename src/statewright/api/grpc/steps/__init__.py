"""``workflow.v1.WorkflowEngine``: the JSON step engine over gRPC, on the same port as everything else
(spec/step-engine.md §12).
"""
