"""Calculation nodes and their callbacks."""

from tests.integration.transactions.conftest import callback as callback
from tests.integration.transactions.conftest import serving as serving
