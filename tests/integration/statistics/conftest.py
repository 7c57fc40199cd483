"""What tests of statistics share: entities in known states, and callbacks inside an open transaction."""

from tests.integration.transactions.conftest import callback as callback
from tests.integration.transactions.conftest import serving as serving
