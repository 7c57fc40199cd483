"""The page that shows the document to people."""

from typing import Final

DOCS_PAGE: Final = b"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Statewright API</title>
<meta name="viewport" content="width=device-width, initial-scale=1"></head>
<body><script id="api-reference" data-url="/openapi.json"></script>
<script src="https://cdn.jsdelivr.net/npm/@scalar/api-reference"></script></body></html>
"""
