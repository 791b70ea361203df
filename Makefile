# Everything that people and CI run here. `make` alone lists the targets.
# Written for GNU make 3.81, because macOS has no newer one.

# The interpreter that .venv is made with: the first one here that is new enough and has venv.
NEW_ENOUGH = import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 11))
PYTHON ?= $(shell for python in python3 python3.14 python3.13 python3.12 python3.11; do \
	$$python -c '$(NEW_ENOUGH)' 2>/dev/null && echo $$python && break; done)

# What you can set on the command line: `make up PORT=8443 ARGS="--cluster examples"`, `make test ARGS="-k quota"`.
PORT ?=
ARGS ?=
SECONDS ?= 60
N ?= 300
TARGET ?=
IMAGE ?= pratique
BASE_IMAGE ?=
PLATFORM ?=

# Bytecode is written and used whatever the environment says: without it, each start compiles 500 modules again.
unexport PYTHONDONTWRITEBYTECODE

VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --no-input --quiet
LOCK := $(BIN)/uv pip compile --universal --generate-hashes --no-annotate --no-emit-index-url \
	--custom-compile-command "make lock" --exclude-newer "1 week" --quiet $(ARGS)
MKDOCS := NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs
GENERATED := services/pratique/admission/v1

# What .venv holds, and when it was put there.
RUNNABLE := $(VENV)/.runnable
TESTABLE := $(VENV)/.testable
FUZZABLE := $(VENV)/.fuzzable
WATCHABLE := $(VENV)/.watchable
MUTABLE := $(VENV)/.mutable

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help up apiserver compose helm cosign test test-long test-pythons fuzz mutants differential drawn-objects lint fix docs docs-serve console screenshots protos check-protos baseline lock sbom bench bench-check flame lock-peers image clean

help: ## List these targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "make %-13s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

up: protos ## Start the local stack in the foreground (PORT=8080, ARGS=flags of `pratique up`)
	@$(BIN)/pratique up $(if $(PORT),--port $(PORT)) $(ARGS)

apiserver: ## Build the kube-apiserver that tests/apiserver asks, once for each release
	@scripts/build_for_tests.sh kube-apiserver

compose: ## Build the Compose 2 that tests/containers runs, once for each release
	@scripts/build_for_tests.sh docker-compose

helm: ## Build the Helm that renders and installs the chart in tests, once for each release
	@scripts/build_for_tests.sh helm

cosign: ## Build the cosign and the registry whose signatures a slow test verifies, once for each release
	@scripts/build_for_tests.sh cosign
	@scripts/build_for_tests.sh registry

test: $(TESTABLE) protos ## Run the whole test suite (ARGS=arguments of pytest)
	@$(BIN)/python -m pytest --numprocesses auto --maxprocesses 8 --dist loadgroup $(ARGS)

test-long: $(TESTABLE) protos ## Run the slow tests, and all properties with many examples (ARGS=arguments of pytest)
	@PRATIQUE_LONG=1 $(BIN)/python -m pytest -m long --override-ini faulthandler_timeout=3600 $(ARGS)

test-pythons: $(TESTABLE) ## Install the wheel of a fresh clone in each Python that is here, 3.11 to 3.13, and try it
	@$(BIN)/python -m pytest -m long tests/packaging $(ARGS)

fuzz: $(FUZZABLE) protos ## Look for inputs that break the readers (SECONDS=60 for each target, TARGET=only this one)
	@$(BIN)/python tests/fuzzing/fuzz.py --seconds $(SECONDS) $(if $(TARGET),--target $(TARGET)) $(ARGS)

mutants: $(MUTABLE) protos ## Break security-critical lines and check that a test fails (ARGS=flags of tests/mutants/run.py)
	@PYTHONPATH=tests $(BIN)/python tests/mutants/run.py $(ARGS)

differential: $(TESTABLE) protos ## Compare with a real kube-apiserver on N drawn pairs (N=300, ARGS=--help)
	@PYTHONPATH=tests $(BIN)/python -m differential.run --pairs $(N) $(ARGS)

drawn-objects: N = 20000
drawn-objects: $(TESTABLE) protos ## Keep drawn objects that reach new code, as a real kube-apiserver answers them (N=20000)
	@PYTHONPATH=tests $(BIN)/python -m differential.record_objects --objects $(N) $(ARGS)

lint: $(TESTABLE) protos ## Check style, types, imports between packages, and the gRPC contract
	@passed=true; \
	$(BIN)/ruff check --quiet || passed=false; \
	$(BIN)/ruff format --check --quiet || passed=false; \
	$(BIN)/mypy services tests scripts bench/*.py || passed=false; \
	$(BIN)/lint-imports --no-logo || passed=false; \
	$(BIN)/buf lint proto || passed=false; \
	$$passed

fix: $(TESTABLE) ## Apply ruff's fixes and format the code
	@$(BIN)/ruff check --fix --quiet || true
	@$(BIN)/ruff format

docs: $(TESTABLE) ## Make the documents a site in site/, and fail on dead links (ARGS=flags of mkdocs build)
	@$(MKDOCS) build $(ARGS)

docs-serve: $(TESTABLE) ## Show that site at http://127.0.0.1:8000 while you write (ARGS=flags of mkdocs serve)
	@$(MKDOCS) serve $(ARGS)

console: ## Bundle the editor of the console's pages; needs npm
	@cd scripts/console_editor && npm ci --silent && npm run --silent build -- --log-level=warning \
		--outfile=$(CURDIR)/services/frontdoor/pratique_frontdoor/console/static/editor.js

screenshots: $(TESTABLE) protos ## Make the pictures of the console in docs/console anew
	@PRATIQUE_SCREENSHOTS=$(CURDIR)/docs/console $(BIN)/python -m pytest --quiet tests/console -k documents_show

protos: $(RUNNABLE) ## Generate the gRPC code from proto/
	@$(BIN)/python scripts/generate_protos.py

check-protos: $(TESTABLE) protos ## Lint the contract and check that it breaks no caller
	@$(BIN)/buf lint proto
	@$(BIN)/buf breaking proto --against proto/baseline.binpb

baseline: check-protos ## Accept the present contract as the one that callers rely on: rewrite proto/baseline.binpb
	@$(BIN)/buf build proto --exclude-source-info --output proto/baseline.binpb

lock: $(TESTABLE) ## Rewrite scripts/requirements/ from pyproject.toml (ARGS=--upgrade for newer releases)
	@$(LOCK) pyproject.toml --all-extras --group dev --output-file scripts/requirements/dev.txt
	@$(LOCK) pyproject.toml --extra services --extra ledger --extra cluster --extra console --group build --constraint scripts/requirements/dev.txt --output-file scripts/requirements/build.txt
	@$(LOCK) pyproject.toml --extra services --extra ledger --extra cluster --extra console --constraint scripts/requirements/dev.txt --output-file scripts/requirements/run.txt
	@$(LOCK) pyproject.toml --extra certificates --group build --constraint scripts/requirements/dev.txt --output-file scripts/requirements/offline.txt
	@$(LOCK) --group fuzz --output-file scripts/requirements/fuzz.txt
	@$(LOCK) --group flame --output-file scripts/requirements/flame.txt
	@$(LOCK) --group mutants --constraint scripts/requirements/dev.txt --output-file scripts/requirements/mutants.txt

sbom: | $(BIN)/python ## Write a CycloneDX bill of materials to build/sbom.cdx.json
	@mkdir -p build
	@$(BIN)/python scripts/write_sbom.py >build/sbom.cdx.json

bench: $(TESTABLE) protos ## Run the benchmarks, with ARGS=--peers against other frameworks too (ARGS=flags of bench/run.py)
	@$(BIN)/python bench/run.py $(ARGS)

bench-check: $(TESTABLE) protos ## Run the benchmarks again and fail if a ratio is worse than the committed one
	@$(BIN)/python bench/run.py --check $(ARGS)

flame: $(WATCHABLE) protos ## Draw a flame graph of each service into bench/results (ARGS=flags of bench/flames.py)
	@$(BIN)/python bench/flames.py $(ARGS)

lock-peers: $(TESTABLE) ## Rewrite the locks of the benchmarks' peers (ARGS=--upgrade for newer releases)
	@for peer in kopf fastapi flask; do (cd bench/peers/$$peer && ../../../$(LOCK) requirements.in --output-file requirements.txt) || exit 1; done
	@cd bench/peers/pepr && npm install --package-lock-only --omit-lockfile-registry-resolved --no-audit --no-fund
	@cd bench/peers/controller-runtime && $(if $(filter --upgrade,$(ARGS)),go get sigs.k8s.io/controller-runtime@latest &&) go mod tidy
	@cd bench/peers/opa && $(if $(filter --upgrade,$(ARGS)),go get -tool github.com/open-policy-agent/opa@latest &&) go mod tidy

image: ## Build the container image (BASE_IMAGE=any with Python >= 3.11, IMAGE=its name, PLATFORM=linux/arm64)
	docker build $(if $(PLATFORM),--platform $(PLATFORM)) $(if $(BASE_IMAGE),--build-arg BASE_IMAGE=$(BASE_IMAGE)) --tag $(IMAGE) $(ARGS) .

clean: ## Remove everything that make created
	@rm -rf $(VENV) $(GENERATED) bench/.peers build dist site .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	@find services tests scripts bench examples -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true

$(BIN)/python:
	@$(if $(strip $(PYTHON)),$(PYTHON) -c '$(NEW_ENOUGH)' 2>/dev/null,false) || { echo \
		"make: no Python 3.11 or newer with its venv module$(if $(PYTHON), in $(PYTHON));" \
		"make PYTHON=<interpreter> names one (on Debian, python3-venv brings the module)" >&2; exit 1; }
	@$(PYTHON) -m venv $(VENV)

$(RUNNABLE): scripts/requirements/build.txt pyproject.toml | $(BIN)/python
	@echo "make: installing what runs into $(VENV)" >&2
	@$(PIP) install --require-hashes --requirement scripts/requirements/build.txt
	@$(PIP) install --no-deps --no-build-isolation --editable .
	@$(BIN)/python -m compileall -q -j 0 services
	@touch $@

$(TESTABLE): scripts/requirements/dev.txt $(RUNNABLE)
	@echo "make: installing what tests into $(VENV)" >&2
	@$(PIP) install --require-hashes --requirement scripts/requirements/dev.txt
	@touch $@

$(FUZZABLE): scripts/requirements/fuzz.txt $(TESTABLE)
	@echo "make: installing what fuzzes into $(VENV)" >&2
	@$(PIP) install --require-hashes --requirement scripts/requirements/fuzz.txt
	@touch $@

$(WATCHABLE): scripts/requirements/flame.txt $(RUNNABLE)
	@echo "make: installing what watches into $(VENV)" >&2
	@$(PIP) install --require-hashes --requirement scripts/requirements/flame.txt
	@touch $@

$(MUTABLE): scripts/requirements/mutants.txt $(TESTABLE)
	@echo "make: installing what breaks lines into $(VENV)" >&2
	@$(PIP) install --require-hashes --requirement scripts/requirements/mutants.txt
	@touch $@
