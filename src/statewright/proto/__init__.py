"""Messages and service stubs generated from ``proto/`` by ``make proto``; never edited by hand."""
