"""The REST API: Granian serves HTTP, one application routes by Litestar's router and authenticates, and endpoints
translate between requests and use cases.
"""
