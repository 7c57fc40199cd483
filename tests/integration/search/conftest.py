"""Searches can be made from inside a transaction, too."""

from tests.integration.transactions.conftest import callback as callback
from tests.integration.transactions.conftest import serving as serving
