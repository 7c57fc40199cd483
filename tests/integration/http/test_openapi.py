"""The OpenAPI document tells the truth (docs/reference/service.md#openapi)."""

import re
from dataclasses import replace
from urllib.parse import urljoin

import httpx
import pytest
from jsonschema import Draft202012Validator
from openapi_spec_validator import OpenAPIV31SpecValidator

from tests.builders import SAMPLE, Json, a_workflow, manual
from tests.service import Api, RunningService, done

METHODS = ("get", "post", "put", "patch", "delete")
UNKNOWN = "00000000-0000-1000-8000-000000000000"
UNKNOWN_INSTANCE = "01JABC3V9E6K8M2Q4S6T8W0Y2Z"
LANGUAGES = ("/v1/flows", "/v1/playbooks", "/v1/executions")
PUBLIC = [
    ("get", "/health"),
    ("get", "/help/workflows/schema-version/versions"),
    ("post", "/oauth/token"),
    ("get", "/.well-known/jwks.json"),
]


@pytest.fixture(scope="module")
def document(service: RunningService) -> Json:
    """The document as it is served."""
    return done(Api(service.root).get("/openapi.json"))


def operations(document: Json) -> list[tuple[str, str, Json]]:
    return [
        (method, path, operation)
        for path, item in document["paths"].items()
        for method, operation in item.items()
        if method in METHODS
    ]


def filled(path: str) -> str:
    """A path with something that binds in place of every parameter."""
    numbers = path.replace("{modelVersion}", "1")
    return re.sub(r"\{[a-zA-Z]*Id\}", UNKNOWN, numbers).replace("{format}", "JSON").replace("{", "").replace("}", "")


def server_of(api: Api, document: Json, path: str) -> Api:
    """Where a path is served: below the context path, unless it says otherwise."""
    [own, *_] = [operation.get("servers") for operation in document["paths"][path].values()]
    return api if own is None else replace(api, url=urljoin(api.url, own[0]["url"]).rstrip("/"))


def test_the_document_is_valid_openapi_3_1(document: Json) -> None:
    assert document["openapi"] == "3.1.0"
    assert [str(error) for error in OpenAPIV31SpecValidator(document).iter_errors()] == []


def test_the_server_is_the_one_that_was_asked(service: RunningService) -> None:
    document = done(Api(service.root).get("/openapi.json", Host="api.example.org:8443"))
    assert document["servers"] == [{"url": "http://api.example.org:8443/api"}]
    assert document["info"]["version"] == "1.0"


def test_operations_have_names_of_their_own(document: Json) -> None:
    names = [operation["operationId"] for _, _, operation in operations(document)]
    assert len(set(names)) == len(names)
    assert all(operation.get("summary") for _, _, operation in operations(document))


def test_every_documented_operation_is_served(api: Api, document: Json) -> None:
    for method, path, _ in operations(document):
        response = server_of(api, document, path).request(method.upper(), filled(path))
        assert response.status_code != 405, (method, path)
        assert "NOT_FOUND: there is no such path" not in response.text, (method, path)


def test_no_path_serves_a_method_that_is_not_documented(api: Api, document: Json) -> None:
    for path, item in document["paths"].items():
        for method in set(METHODS) - set(item):
            response = server_of(api, document, path).request(method.upper(), filled(path))
            if response.status_code == 405:
                continue
            # Another, more general path may serve it: then that one documents the method.
            assert any(
                method in other and re.fullmatch(re.sub(r"\{\w+\}", "[^/]+", pattern), filled(path))
                for pattern, other in document["paths"].items()
            ), (method, path, response.status_code, response.text)


def test_reads_of_languages_answer_as_documented_whatever_their_parameters_are(
    service: RunningService, api: Api, document: Json
) -> None:
    """Each parameter with what it cannot be, and one that there is not; and each form of a diagram."""
    languages = replace(api, url=service.root)
    languages.post("/v1/flows/definitions", {"source": "@flow f\na"})
    flow = languages.post("/v1/flows/instances", {"definitionId": "f"}).json()
    playbook = {"metadata": {"name": "p"}, "workflow": [{"step": "s"}]}
    languages.post("/v1/playbooks", playbook)
    execution = languages.post("/v1/executions", {"path": "p"}).json()
    ids = {"/v1/flows/definitions": "f", "/v1/flows/instances": flow["id"], "/v1/executions": execution["id"]}
    refused = 0
    for method, path, operation in operations(document):
        if method != "get" or not path.startswith(LANGUAGES):
            continue
        id_ = next((each for root, each in ids.items() if path.startswith(root)), "")
        url = filled(path.replace("{id}", id_).replace("{version}", "1").replace("{path}", "p"))
        known = [one["name"] for one in operation["parameters"] if one["in"] == "query"]
        bad = [f"{name}={value}" for name in known for value in ("x", "-1", "%00", f"1&{name}=1")]
        for query in ["", "nothing=1", "format=graph&direction=TB", *bad]:
            answer = languages.get(f"{url}?{query}")
            refused += answer.status_code == 400
            assert_documented(document, operation, answer)
    assert refused > 50


def assert_documented(document: Json, operation: Json, answer: httpx.Response) -> None:
    told = f"{answer.request.method} {answer.request.url}: {answer.status_code} {answer.text}"
    content = operation["responses"].get(str(answer.status_code), {}).get("content", {})
    media_type = answer.headers["content-type"].partition(";")[0]
    assert media_type in {kind.partition(";")[0] for kind in content}, told
    if media_type == "application/json":
        assert_fits(document, content[media_type]["schema"], answer.json(), told)


@pytest.mark.parametrize("value", ["x", "-1", "1.0", "9" * 30, "", "%00"])
def test_a_position_in_an_event_log_that_is_none_is_refused(service: RunningService, api: Api, value: str) -> None:
    """It began at the first event."""
    languages = replace(api, url=service.root)
    for name in ("after", "limit"):
        refusal = languages.get(f"/v1/executions/{UNKNOWN_INSTANCE}/events?{name}={value}")
        assert (refusal.status_code, refusal.json().get("parameter")) == (400, name), refusal.text


@pytest.mark.parametrize(("method", "path"), PUBLIC)
def test_routes_without_credentials_are_documented_too(document: Json, method: str, path: str) -> None:
    assert document["paths"][path][method]["security"] in ([], [{"basicAuth": []}, {}])


def test_path_parameters_are_exactly_those_of_the_path(document: Json) -> None:
    for method, path, operation in operations(document):
        declared = [parameter["name"] for parameter in operation["parameters"] if parameter["in"] == "path"]
        assert sorted(declared) == sorted(re.findall(r"\{(\w+)\}", path)), (method, path)


def test_a_tour_of_the_api_meets_only_what_is_documented(api: Api, document: Json) -> None:
    check = Checker(document)
    check("post", "/model/import/{dataFormat}/{converter}/{entityName}/{modelVersion}", _imported(api))
    check("put", "/model/{entityName}/{modelVersion}/lock", api.put("/model/prize/1/lock"))
    check("put", "/model/{entityName}/{modelVersion}/lock", api.put("/model/prize/1/lock"))
    check("get", "/model/", api.get("/model/"))
    for converter in ("SIMPLE_VIEW", "JSON_SCHEMA", "NONE"):
        exported = api.get(f"/model/export/{converter}/prize/1")
        check("get", "/model/export/{converter}/{entityName}/{modelVersion}", exported)
    check("post", "/model/validate/{entityName}/{modelVersion}", api.post("/model/validate/prize/1", {"x": 1}))
    api.import_workflows(a_workflow(New=[manual("GO", to="Gone")], Gone=[]))
    exported = api.get("/model/prize/1/workflow/export")
    check("get", "/model/{entityName}/{modelVersion}/workflow/export", exported)
    created = api.post("/entity/JSON/prize/1", SAMPLE)
    check("post", "/entity/{format}/{entityName}/{modelVersion}", created)
    refusal = api.post("/entity/JSON/prize/1", {"year": "x y"})
    check("post", "/entity/{format}/{entityName}/{modelVersion}", refusal)
    entity = created.json()[0]["entityIds"][0]
    check("get", "/entity/{entityId}", api.get(f"/entity/{entity}"))
    check("get", "/entity/{entityId}", api.get(f"/entity/{UNKNOWN}"))
    check("get", "/entity/{entityName}/{modelVersion}", api.get("/entity/prize/1?pointInTime=2999-01-01"))
    check("put", "/entity/{format}/{entityId}", api.put(f"/entity/JSON/{entity}", SAMPLE))
    check("put", "/entity/{format}/{entityId}", api.put(f"/entity/JSON/{entity}", SAMPLE, If_Match="x"))
    moved = api.put(f"/entity/JSON/{entity}/GO", SAMPLE)
    check("put", "/entity/{format}/{entityId}/{transition}", moved)
    check("put", "/entity/{format}/{entityId}/{transition}", api.put(f"/entity/JSON/{entity}/GO", SAMPLE))
    check("get", "/entity/{entityId}/changes", api.get(f"/entity/{entity}/changes"))
    check("get", "/entity/{entityId}/transitions", api.get(f"/entity/{entity}/transitions"))
    check("get", "/audit/entity/{entityId}", api.get(f"/audit/entity/{entity}?limit=3"))
    finished = api.get(f"/audit/entity/{entity}/workflow/{moved.json()['transactionId']}/finished")
    check("get", "/audit/entity/{entityId}/workflow/{transactionId}/finished", finished)
    check("delete", "/entity/{entityId}", api.delete(f"/entity/{entity}"))
    check("get", "/entity/{entityId}/changes", api.get(f"/entity/{entity}/changes"))
    check("get", "/account", api.get("/account"))
    check("get", "/account", Api(api.url).get("/account"))


def _imported(api: Api) -> httpx.Response:
    return api.post("/model/import/JSON/SAMPLE_DATA/prize/1", SAMPLE)


class Checker:
    """Compares responses with what the document says of their operation."""

    def __init__(self, document: Json) -> None:
        self._document = document

    def __call__(self, method: str, path: str, response: httpx.Response) -> None:
        responses = self._document["paths"][path][method]["responses"]
        assert str(response.status_code) in responses, (method, path, response.status_code, response.text)
        described = responses[str(response.status_code)]
        [(media_type, content)] = described["content"].items()
        assert response.headers["content-type"] == media_type
        schema = {"$ref": content["schema"]["$ref"], "components": self._document["components"]}
        errors = [error.message for error in Draft202012Validator(schema).iter_errors(response.json())]
        assert errors == [], (method, path, response.text)
        if response.status_code >= 400:
            assert response.json()["properties"]["errorCode"] in described["description"], (method, path)


# Examples.


def test_every_parameter_body_and_answer_has_an_example_that_fits_its_schema(document: Json) -> None:
    for method, path, operation in operations(document):
        place = f"{method} {path}"
        for parameter in operation["parameters"]:
            assert_fits(document, parameter["schema"], parameter["example"], f"{place} {parameter['name']}")
        answers = [operation["requestBody"]] if "requestBody" in operation else []
        for answer in (*answers, *operation["responses"].values()):
            for shape in answer.get("content", {}).values():
                for example in examples_of(document, shape):
                    assert_fits(document, shape["schema"], example, place)


def examples_of(document: Json, shape: Json) -> list[Json]:
    if "example" in shape:
        return [shape["example"]]
    named = [one["$ref"].rpartition("/")[2] for one in shape["examples"].values()]
    return [document["components"]["examples"][name]["value"] for name in named]


def assert_fits(document: Json, schema: Json, example: Json, place: str) -> None:
    errors = Draft202012Validator(schema | {"components": document["components"]}).iter_errors(example)
    assert [error.message for error in errors] == [], place


def test_failures_have_an_example_for_each_of_their_codes(document: Json) -> None:
    for _, path, operation in operations(document):
        for status, answer in operation["responses"].items():
            shape = answer.get("content", {}).get("application/problem+json", {})
            for example in examples_of(document, shape) if "examples" in shape else ():
                code = example["properties"]["errorCode"]
                assert code in answer["description"], path
                assert example["status"] == int(status), (path, code)
