"""Calculation members: who is connected, which one gets a callout, and the wait for its answer.

Nothing here knows how an event looks on the wire, or what a workflow is. The gRPC door carries messages from a
member's outbox to its stream and answers back; the engine makes callouts and applies replies.
"""
