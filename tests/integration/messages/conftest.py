"""What tests of edge messages share."""

from tests.integration.transactions.conftest import callback as callback
from tests.integration.transactions.conftest import serving as serving
