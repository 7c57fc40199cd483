# Statewright. `make` lists what there is.
PYTHON ?= $(shell scripts/find_python.sh)
VENV := .venv
BIN := $(VENV)/bin
WORKERS ?= $(shell nproc 2>/dev/null || echo 2)
# Tests of whole programs wait for half of their time, and those of services for more; with one worker more, an eighth
# of two processors is idle. The files of programs are the longest, and so come first.
WAITING_WORKERS ?= $(shell expr $(WORKERS) + 2)

# Where it is set, as in many images of Python, each of the hundreds of programs that tests start compiles every module.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help

help: ## list the targets
	@grep -hE '^[a-z0-9-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

$(BIN)/python:
	@python="$(PYTHON)"; test -n "$$python" || { echo "Statewright needs Python 3.11 or newer, with venv." >&2; exit 1; }; \
	"$$python" -m venv $(VENV)

# grpc-h2, which the service requires, is of this repository and in no index.
$(BIN)/statewright: pyproject.toml packages/grpc-h2/pyproject.toml | $(BIN)/python
	$(BIN)/pip install --quiet --editable packages/grpc-h2 --editable '.[server]'
	@touch $@

$(VENV)/.dev: pyproject.toml packages/grpc-h2/pyproject.toml | $(BIN)/python
	$(BIN)/pip install --quiet --editable packages/grpc-h2 --editable '.[dev]'
	@touch $(BIN)/statewright $@

setup: $(VENV)/.dev ## create .venv with everything a developer needs

run: $(BIN)/statewright ## install and serve on http://127.0.0.1:8080/api
	$(BIN)/statewright serve

test: unit integration ## install what the tests need and run them all

unit: $(VENV)/.dev ## run the unit tests only
	$(BIN)/pytest tests/unit packages/grpc-h2/tests/unit -q -n $(WORKERS)

integration: $(VENV)/.dev ## run the tests of services and whole programs only
	$(BIN)/pytest tests/e2e tests/integration packages/grpc-h2/tests/integration -q -n $(WAITING_WORKERS) --dist loadfile --no-loadscope-reorder

nets: $(VENV)/.dev ## run 300 random playbooks and flows (NETS=) while their workers are killed: minutes
	STATEWRIGHT_TEST_NETS=$(or $(NETS),300) $(BIN)/pytest tests/e2e/test_random_nets.py -q -n 0

brokers: $(VENV)/.dev ## run Kafka and NATS, and kill them under events; needs a JDK, Maven and Go: minutes
	STATEWRIGHT_TEST_BROKERS=build/brokers $(BIN)/pytest tests/integration/ops/test_brokers.py -q -n 0

browser: $(VENV)/.dev ## run the tests of the console; needs Chromium
	$(BIN)/pytest tests/browser -q -n $(WORKERS) --dist loadfile --no-loadscope-reorder

pictures: $(VENV)/.dev ## write pictures of the console to build/pictures; OF="home task": of these only
	STATEWRIGHT_TEST_PICTURES=build/pictures STATEWRIGHT_TEST_PICTURES_OF="$(OF)" $(BIN)/pytest tests/browser/test_pictures.py -q -n 0

demo: $(BIN)/statewright ## watch an entity move through an imported workflow
	$(BIN)/python examples/demo.py

demo-steps: $(BIN)/statewright ## watch the loan chain run on the JSON step engine, with a worker
	$(BIN)/python examples/demo_steps.py

demo-flows: $(BIN)/statewright ## watch a flow of ten lines survive the death of the service, with two workers
	$(BIN)/python examples/demo_flows.py

demo-playbooks: $(BIN)/statewright ## watch a playbook survive the death of the service, and wait for decisions
	$(BIN)/python examples/demo_playbooks.py

bench: $(VENV)/.dev ## measure against floors taken in the same run
	$(BIN)/python -m benchmarks

bench-search: $(VENV)/.dev ## measure searches of a million entities (ENTITIES=) against SQL written by hand
	$(BIN)/python -m benchmarks.search --entities $(or $(ENTITIES),1000000)

bench-console: $(VENV)/.dev ## measure pages of the console beside a million entities (ENTITIES=)
	$(BIN)/python -m benchmarks.console --entities $(or $(ENTITIES),1000000)

bench-explain: $(VENV)/.dev ## measure explanations of entities beside a million of them (ENTITIES=)
	$(BIN)/python -m benchmarks.explain --entities $(or $(ENTITIES),1000000)

bench-steps: $(VENV)/.dev ## measure the step engine against bare SQL: chains, and a backlog of 100,000 jobs
	$(BIN)/python -m benchmarks.steps

bench-flows: $(VENV)/.dev ## measure flows against the step engine: chains, a long iteration, a large text
	$(BIN)/python -m benchmarks.flows

bench-playbooks: $(VENV)/.dev ## measure playbooks: executions, a fan-out, tokens that wait for admission
	$(BIN)/python -m benchmarks.playbooks

bench-modes: $(VENV)/.dev ## measure the execution modes against a handler that holds its connections
	$(BIN)/python -m benchmarks.modes

lint: $(VENV)/.dev ## check style and import contracts
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports

fmt: $(VENV)/.dev ## format the code
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

types: mypy pyright ## check types, of benchmarks, examples and scripts too

mypy pyright: $(VENV)/.dev
	$(BIN)/$@

check: lint types test ## everything that CI runs

figures: $(VENV)/.dev ## measure the code and eight requests, and enter what is better into scripts/code_figures.toml
	$(BIN)/python -m scripts.measure_code --walks --enter

chart: ## render and lint the Helm chart; needs helm
	helm lint --strict deploy/helm/statewright --values tests/unit/chart_values.yaml
	helm template statewright deploy/helm/statewright --namespace default --kube-version 1.31.0 --values tests/unit/chart_values.yaml \
		> tests/unit/rendered_chart.yaml

proto: $(VENV)/.dev ## generate the gRPC stubs of src/statewright/proto from proto
	$(BIN)/python scripts/generate_protos.py

openapi: $(BIN)/statewright ## write docs/reference/openapi.json
	$(BIN)/statewright openapi > docs/reference/openapi.json

fresh-clone: $(VENV)/.dev ## clone, `make run` and the lines of the README as on a machine that has nothing: minutes
	$(BIN)/python -m scripts.try_fresh_clone

clean: ## remove what the targets made, the data of `make run` excepted
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

.PHONY: help setup run test unit integration nets brokers browser pictures demo demo-flows demo-playbooks demo-steps bench bench-console bench-explain bench-flows bench-playbooks bench-modes bench-search bench-steps lint fmt types figures mypy pyright check openapi proto fresh-clone clean
