"""Addresses, sockets and TLS, the same for everything that listens."""
