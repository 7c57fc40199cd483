"""Calculation members: which are connected, which one gets a callout, and the wait for its result.

This package depends neither on the wire format of events nor on workflows. The gRPC server carries messages from a
member's outbox to its stream and results back; the engine makes callouts and applies their results.
"""
