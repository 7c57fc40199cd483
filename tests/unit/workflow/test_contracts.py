import pytest

from statewright.failures import SchemaVersionUnsupported
from statewright.workflow import Contract, describe_versions
from tests.unit.workflow.builders import a_request, a_workflow

FUTURE_MINOR = (
    "workflow schema minor version too new: this server supports workflow schema up to 1.3; payload declares {}."
)
FUTURE_MAJOR = (
    "workflow schema major version unsupported: "
    "workflow schema major version {} unsupported on this server; supported majors: [1]"
)


@pytest.mark.parametrize("version", ["1.1", "1.2", "1.3"])
def test_supported_versions_name_the_strict_contract(version):
    (workflow,) = a_request(a_workflow(version=version)).workflows
    assert workflow.contract is Contract.STRICT


@pytest.mark.parametrize(
    "version",
    [
        "",
        "0",
        "1",
        "2",
        "1.0",
        "0.9",
        "0.99",
        "x",
        "draft",
        "v1.3",
        "1.0.0",
        "2.0.0",
        "01.1",
        "1.01",
        "+1.3",
        " 1.3",
        "1.3\n",
        "١.٣",
    ],
)
def test_everything_else_that_is_not_newer_names_the_seed_contract_and_is_kept_verbatim(version):
    (workflow,) = a_request(a_workflow(version=version)).workflows
    assert (workflow.contract, workflow.version) == (Contract.SEED, version)


@pytest.mark.parametrize("absence", [{}, {"version": None}])
def test_a_missing_version_names_the_seed_contract(absence):
    definition = {key: value for key, value in a_workflow().items() if key != "version"} | absence
    (workflow,) = a_request(definition).workflows
    assert (workflow.contract, workflow.version) == (Contract.SEED, "")


@pytest.mark.parametrize("version", ["1.4", "1.10", "1.99999999999999999999", f"1.{'9' * 5000}"])
def test_a_newer_minor_version_is_unsupported(version):
    with pytest.raises(SchemaVersionUnsupported) as refused:
        a_request(a_workflow("parcel", version=version))
    assert refused.value.message.startswith(f'workflow "parcel": {FUTURE_MINOR.format(version)}')
    assert refused.value.detail.startswith("WORKFLOW_SCHEMA_VERSION_UNSUPPORTED: ")


@pytest.mark.parametrize(("version", "major"), [("2.0", "2"), ("2.1", "2"), ("10.0", "10")])
def test_a_newer_major_version_is_unsupported(version, major):
    with pytest.raises(SchemaVersionUnsupported) as refused:
        a_request(a_workflow("parcel", version=version))
    assert refused.value.message == f'workflow "parcel": {FUTURE_MAJOR.format(major)}'


def test_the_first_unsupported_workflow_of_a_request_is_named():
    with pytest.raises(SchemaVersionUnsupported, match=r"""^workflow "second": """):
        a_request(a_workflow("first"), a_workflow("second", version="1.4"), a_workflow("third", version="2.0"))


def test_members_of_a_newer_contract_do_not_hide_that_it_is_newer():
    with pytest.raises(SchemaVersionUnsupported):
        a_request(a_workflow(version="1.4", invented="later"))


def test_each_workflow_of_a_request_has_its_own_contract():
    workflows = a_request(a_workflow("new", version="1.3"), a_workflow("old", version="1", extra=True)).workflows
    assert [workflow.contract for workflow in workflows] == [Contract.STRICT, Contract.SEED]


def test_the_discovery_document_lists_the_strict_window():
    assert describe_versions() == {"current": "1.3", "supported": [{"major": 1, "minMinor": 1, "maxMinor": 3}]}
