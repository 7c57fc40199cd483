"""The gRPC door: CloudEvents in, CloudEvents out, and the streams of calculation members (spec/grpc.md)."""
