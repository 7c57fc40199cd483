"""The gRPC API: requests and responses as CloudEvents, and the streams of calculation members
(docs/reference/grpc.md#grpc).
"""
