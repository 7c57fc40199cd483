"""The REST door: a thin ASGI front that authenticates, Litestar behind it, endpoints that speak for the use cases."""
