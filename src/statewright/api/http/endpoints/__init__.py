"""What each route does: bind the request, call the use case, write the answer."""
