"""A running program, and what there is to look at in it."""

from tests.builders import a_workflow, automated, manual, when
from tests.e2e.program import Program
from tests.service import Api

ORDER = {"customer": "Ada", "amount": 120.5, "lines": [{"sku": "A-1", "count": 2}], "paid": False}
ORDERS = 60

FULFILMENT = a_workflow(
    "fulfilment",
    NEW=[
        manual("PAY", to="PAID"),
        manual("APPROVE", to="APPROVED", criterion=when("$.amount", "GREATER_THAN", 10_000)),
    ],
    PAID=[automated("SHIP", to="SHIPPED", criterion=when("$.paid", "EQUALS", True)), manual("CANCEL", to="CANCELLED")],
    APPROVED=[],
    SHIPPED=[],
    CANCELLED=[],
)

HOSTILE = '<script>alert(1)</script> "><img src=x onerror=alert(2)> {{7*7}} \u202e../?#%'
"""Text of a user who means harm."""


class Installation:
    """A program in mock mode. ``orders`` are the ids of its orders, oldest first."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.orders: list[str] = []
        self.own_parameters: dict[str, dict[str, str]] = {}
        """By the path of a page, the parameters that are others than those of all pages."""

    @property
    def root(self) -> str:
        return self.program.root

    @property
    def parameters(self) -> dict[str, str]:
        """A value for each parameter of the paths of pages, by name."""
        return {"name": "order", "version": "1", "workflow": "fulfilment", "id": self.orders[0]}

    @property
    def api(self) -> Api:
        return self.program.api()


def fill(installation: Installation) -> None:
    """Orders in three states, a model without a workflow, and one with hostile names and values."""
    api = installation.api
    api.a_model(FULFILMENT, model="order/1", sample=ORDER)
    installation.orders = [api.create(ORDER | {"amount": 100 + n}, model="order/1").id for n in range(ORDERS)]
    for order in installation.orders[:5]:
        api.update(order, ORDER, fire="PAY")
    api.a_model(model="invoice/2", sample={"number": "R-1", "total": 12.50})
    api.import_model("draft/1", {"text": ""})
    api.a_model(model="note/1", sample={"text": HOSTILE})
    api.create({"text": HOSTILE}, model="note/1")
