"""The web console: pages made from answers of the public API, and nothing else (docs/console.md).

``routes.py`` is the table of pages, parts and actions. ``application.py`` answers a request with one of them;
``client.py`` calls the API inside the process, through the same application as a request from outside.
"""
