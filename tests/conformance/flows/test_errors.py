"""Every worked error is told with its code, its place and its words."""

import pytest

from statewright.flows.compiling import compile_flow
from statewright.flows.errors import FlowError
from tests.conformance.flows.cases import Case, read_cases


@pytest.mark.parametrize("case", read_cases("errors.txt"), ids=lambda case: case.name)
def test_a_text_is_refused(case: Case) -> None:
    code, _, text = case.sections["error"].partition(" ")
    with pytest.raises(FlowError) as caught:
        compile_flow(case.text)
    assert caught.value.code == code
    assert str(caught.value).startswith(text)
