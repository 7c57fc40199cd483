"""Pages by area: what each asks of the API, and what its template sees of the answers."""
