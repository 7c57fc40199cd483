"""Service processes on one database as one service (docs/reference/grpc.md#several-nodes,
docs/reference/grpc.md#failures-of-nodes).

Every process is a node. It publishes in PostgreSQL that it lives and which calculation members are connected to it
(``heartbeat``), and keeps the same of all others in memory, so that choosing a member costs no query. Over a private
gRPC channel (``channels``, ``node``) nodes bring callouts to each other's members (``forwarding``),
and requests with a transaction token to the node that owns the transaction (``http_proxy``). There is no coordinator:
what must happen once is claimed in the database by the first node that tries.
"""
