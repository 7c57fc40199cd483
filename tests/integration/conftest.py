"""What integration tests share: a running service and a caller of its API."""

from tests.service import api as api
from tests.service import service as service
from tests.service import tenant as tenant
