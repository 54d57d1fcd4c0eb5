# tagcast: `make run` starts the service on this machine, `make test` checks everything.
SHELL := /bin/bash
PYTHON ?= $(shell command -v python3.11 || command -v python3 || echo python3.11)
BIN := .venv/bin
PORT ?= 8080
DATA ?= .tagcast
TIME_SCALE ?= 1
CONSOLE_PORT ?= $(shell expr $(PORT) + 1)
# A version of pyenv comes before its shim, which is in the path even if it cannot start the version.
PYTHON313 ?= $(firstword $(wildcard $(HOME)/.pyenv/versions/3.13.*/bin/python3.13) $(shell command -v python3.13))
RUNS ?= 100000
SECONDS ?= 600
CELL_SECONDS ?= 60
PLACE ?= large
JOBS ?= 2
WORKERS ?= 3
SAMPLE ?= 400
SEED ?= 1
BUILT := clients/python/tagcast_client/_sync/client.py
READY := .venv/.installed $(BUILT)
TOOLS := $(READY) .venv/.installed-tools
# An upgrade of the system's Python may break the environment. Then it is created again.
IS_USABLE := $(shell $(BIN)/python -c 'import os, sysconfig; os.listdir(sysconfig.get_path("purelib"))' 2>/dev/null && echo yes)
RUN_FLAGS := --port $(PORT) --console-port $(CONSOLE_PORT) --data '$(DATA)' --time-scale $(TIME_SCALE) $(if $(filter-out 0 no false,$(FRESH)),--fresh)
export PIP_DISABLE_PIP_VERSION_CHECK := 1
# The commands start many processes. Without bytecode, each process would compile all modules again.
unexport PYTHONDONTWRITEBYTECODE
# Shows pip's output: one changing line in a terminal, every twentieth package elsewhere. Errors go to standard error.
PROGRESS = awk '/^(Collecting|Downloading|  Downloading)/ {n++; if (tty) printf "\r\033[K        %s", substr($$0, 1, 68); else if (n % 20 == 1) print "        " $$0; fflush()} END {if (tty) printf "\r\033[K"}' tty=$$(test -t 2 && echo 1)

.PHONY: help again install spark jobs run test nightly second-opinion demo worst-day chromium pictures bench twin simulate simulate-aws digests format docs lock sam-validate clean mutate fuzz permissions audit-dependencies python313

help:  ## List the commands.
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

# Install the service and the command line for the Python in the folder $(1).
define install-tagcast
	@$(1)/python -m pip install --quiet --no-deps --no-build-isolation -e .
	@$(1)/python -m pip install --quiet --no-deps --no-build-isolation -e clients/cli
endef

install: $(TOOLS)  ## Create the environment (each command does this if necessary).

.venv/.installed: requirements.lock pyproject.toml clients/cli/pyproject.toml $(if $(IS_USABLE),,again)
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null \
	  || { echo "tagcast needs Python 3.11 or later, but '$(PYTHON)' is older. Select another: make PYTHON=/path/to/python3.11 ..." >&2; exit 1; }
	@test -n "$(IS_USABLE)" || { echo "1 of 3  Creating the environment .venv with $(PYTHON)"; $(PYTHON) -m venv --clear .venv; }
	@echo "2 of 3  Installing $$(grep -c '==' requirements.lock) packages with pinned versions and hashes; the first time takes about a minute"
	@set -o pipefail; $(BIN)/python -m pip install --progress-bar off --require-hashes --no-deps -r requirements.lock | $(PROGRESS)
	@echo "3 of 3  Installing tagcast itself"
	$(call install-tagcast,$(BIN))
	@touch $@

$(BUILT): .venv/.installed docs/openapi.json $(wildcard clients/python/*.py clients/python/tagcast_client/_async/*.py)
	@$(BIN)/python clients/python/hatch_build.py

.venv/.installed-tools: .venv/.installed requirements-test.lock
	@echo "Installing the tools and the packages of the tests, about 600 MB"
	@set -o pipefail; $(BIN)/python -m pip install --progress-bar off --require-hashes --no-deps -r requirements-test.lock | $(PROGRESS)
	@touch $@

spark: .venv/.installed-spark  ## Install the packages of the Spark jobs (each command does this if necessary).

.venv/.installed-spark: .venv/.installed requirements-spark.lock requirements-s3a.lock
	@echo "1 of 2  Installing Spark and Java, about 600 MB"
	@set -o pipefail; $(BIN)/python -m pip install --progress-bar off --require-hashes --no-deps -r requirements-spark.lock | $(PROGRESS)
	@echo "2 of 2  Installing the S3 connector of Spark"
	@$(BIN)/python -m pip install --quiet --require-hashes --no-deps --upgrade --target .venv/s3a -r requirements-s3a.lock
	@touch $@

run: $(READY)  ## Start the service and its console on this machine: make run PORT=8090 DATA=folder FRESH=1 TIME_SCALE=10
	@exec $(BIN)/python -m local $(RUN_FLAGS)

chromium:  ## Find Chromium for the console's tests, or install Debian's (as root).
	@command -v chromium chromium-browser google-chrome google-chrome-stable >/dev/null \
	  || { test "$$(id -u)" = 0 && command -v apt-get >/dev/null && apt-get update -qq && apt-get install -qq -y --no-install-recommends chromium; } \
	  || { echo "The console's tests need Chromium in the PATH, e.g. sudo apt-get install chromium" >&2; exit 1; }

pictures: $(TOOLS) chromium  ## Take the pictures of the console for the docs.
	$(BIN)/python -m tests.console.pictures $(FOLDER)

# mypy uses a core for a minute, so it runs beside the tests, which often wait.
test: $(TOOLS) .venv/.installed-spark chromium  ## Check style, types, imports and the template, and run the tests.
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports
	$(BIN)/cfn-lint template.yaml functions/publish_url.yaml
	@status=0; $(BIN)/mypy & types=$$!; trap "kill $$types; exit 130" INT; $(BIN)/pytest --numprocesses $(WORKERS) --dist loadscope --no-loadscope-reorder --durations 40 || status=1; \
	  wait $$types || { echo "mypy found faults, see above" >&2; status=1; }; exit $$status

nightly: $(TOOLS) .venv/.installed-spark .venv-second/.installed chromium  ## Run the long tests (`make test` runs a tenth of them), then `make bench`.
	@status=0; $(BIN)/pytest -m nightly --numprocesses $(JOBS) --dist loadscope --no-loadscope-reorder --durations 40 $(TESTS) || status=1; \
	  $(MAKE) bench || status=1; exit $$status

second-opinion: $(TOOLS) .venv-second/.installed  ## Run the most important tests on other implementations of AWS (LocalStack, roto).
	$(BIN)/pytest -m "nightly or not nightly" --durations 20 $(or $(TESTS),tests/second_opinion)

.venv-second/.installed: requirements-second.lock
	@echo "Installing LocalStack and roto into .venv-second, about 540 MB"
	@test -x .venv-second/bin/python || $(PYTHON) -m venv .venv-second
	@set -o pipefail; .venv-second/bin/python -m pip install --progress-bar off --require-hashes --no-deps -r requirements-second.lock | $(PROGRESS)
	@touch $@

demo: $(READY)  ## Play scenario 1 on a new local stack.
	@$(BIN)/python -m local.demo

worst-day: $(TOOLS)  ## Play an outage on a new local stack, and open its console: make worst-day PORT=8090
	@exec $(BIN)/python -m tests.console.worst_day --port $(PORT) --console-port $(CONSOLE_PORT)

bench: $(TOOLS)  ## Measure budgets, and compare ratios with the recorded ones: make bench ONLY="filters push" RECORD=1
	@status=0; $(BIN)/python -m tests.benchmarks $(ONLY) $(if $(RECORD),--record) || status=1; \
	  $(if $(ONLY),,$(BIN)/pytest -q -m benchmark -o timeout=900 tests/unit || status=1;) exit $$status

twin: $(TOOLS)  ## Measure the tables of docs/speed-and-cost.md on the simulated AWS: make twin CELL_SECONDS=60 PLACE=small
	$(BIN)/python -m tests.benchmarks.twin --table $(SUBSCRIPTIONS) --wide $(WIDE) --seconds $(CELL_SECONDS) --place $(PLACE)

simulate: $(TOOLS)  ## Simulate hostile histories until this commit has RUNS; a later call continues: make simulate RUNS=1000
	$(BIN)/python -m tests.simulation --resume --runs $(RUNS) --jobs $(JOBS)

simulate-aws: $(TOOLS)  ## The same on the simulated AWS, with adapters and template: make simulate-aws RUNS=10000
	$(BIN)/python -m tests.aws.histories --resume --runs $(RUNS) --jobs $(JOBS)

digests: $(TOOLS)  ## Compare the calls of both simulations with the recorded ones, seed by seed.
	$(BIN)/python -m tests.simulation.digests --jobs $(JOBS)

mutate: $(TOOLS)  ## Change the code SAMPLE times, and list changes that no test notices; a later call continues.
	$(BIN)/python -m tests.mutation --sample $(SAMPLE) --seed $(SEED) --jobs $(JOBS) $(addprefix --only ,$(ONLY)) $(addprefix --suite ,$(SUITE))

fuzz: $(TOOLS)  ## Fuzz the API for SECONDS, by its OpenAPI document.
	$(BIN)/python -m tests.fuzzing --seconds $(SECONDS)

permissions: $(TOOLS)  ## Compare permissions with their uses, and list superfluous ones.
	$(BIN)/python -m tests.permissions.report

format: $(TOOLS)  ## Format the sources.
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: $(READY)  ## Generate the tables in docs, and docs/openapi.json.
	$(BIN)/python -m tests.documents
	$(BIN)/python -m tagcast_aws.api > docs/openapi.json

lock: .venv/.installed  ## Resolve the dependencies again, and write the lock files.
	test -x .venv-lock/bin/uv || { $(PYTHON) -m venv .venv-lock && .venv-lock/bin/pip install --quiet uv; }
	.venv-lock/bin/uv pip compile --quiet --upgrade --universal --python-version 3.11 --extra local --extra test --generate-hashes \
	  --no-header --no-emit-index-url --no-annotate pyproject.toml --output-file requirements-test.lock
	.venv-lock/bin/uv pip compile --quiet --upgrade --universal --python-version 3.11 --extra local --constraint requirements-test.lock \
	  --generate-hashes --no-header --no-emit-index-url --no-annotate pyproject.toml --output-file requirements.lock
	.venv-lock/bin/uv pip compile --quiet --upgrade --universal --python-version 3.11 --extra spark --extra spark-bench \
	  --constraint requirements-test.lock --generate-hashes --no-header --no-emit-index-url --no-annotate \
	  pyproject.toml --output-file requirements-spark.lock
	.venv-lock/bin/uv pip compile --quiet --python-version 3.11 --generate-hashes --no-header --no-emit-index-url --no-annotate \
	  tests/second_opinion/requirements.in --output-file requirements-second.lock
	.venv-lock/bin/uv pip compile --quiet --python-version 3.13 --python-platform aarch64-manylinux_2_28 --constraint requirements-test.lock \
	  --generate-hashes --no-header --no-emit-index-url --no-annotate \
	  layers/tag_matching/requirements.in --output-file layers/tag_matching/python/requirements.txt
	.venv-lock/bin/uv pip compile --quiet --python-version 3.11 --python-platform x86_64-manylinux_2_28 --constraint requirements-test.lock \
	  --generate-hashes --no-header --no-emit-index-url --no-annotate \
	  clients/python/pyproject.toml --output-file requirements-replay.lock

audit-dependencies:  ## List known vulnerabilities of the locked dependencies (needs the network).
	test -x .venv-audit/bin/pip-audit || { $(PYTHON) -m venv .venv-audit && .venv-audit/bin/pip install --quiet pip-audit; }
	for lock in requirements-test.lock requirements-spark.lock; do \
	  .venv-audit/bin/pip-audit --requirement $$lock --require-hashes --disable-pip --strict --progress-spinner off || status=1; \
	done; exit $${status:-0}

python313:  ## Run unit and integration tests, and the build, on Python 3.13, as on AWS.
	@test -n "$(PYTHON313)" || { echo "Python 3.13 was not found. Select it: make PYTHON313=/path/to/python3.13 python313" >&2; exit 1; }
	test -x .venv-3.13/bin/python || $(PYTHON313) -m venv .venv-3.13
	.venv-3.13/bin/python -m pip install --quiet --require-hashes --no-deps -r requirements-test.lock
	$(call install-tagcast,.venv-3.13/bin)
	.venv-3.13/bin/python clients/python/hatch_build.py
	# Jobs run on the Python of Glue. This environment has no Spark.
	.venv-3.13/bin/python -m pytest -q $(or $(TESTS),tests/unit tests/integration) \
	  --deselect tests/unit/cli/test_job_commands.py::test_a_job_that_breaks_is_quoted
	$(MAKE) sam-validate

sam-validate:  ## Validate and build with the SAM command line (needs Python 3.13).
	test -x .venv-sam/bin/sam || { $(PYTHON) -m venv .venv-sam && .venv-sam/bin/pip install --quiet aws-sam-cli; }
	PATH="$(CURDIR)/.venv-sam/bin:$$PATH:$(dir $(PYTHON313))" SAM_CLI_TELEMETRY=0 .venv-sam/bin/sam validate --lint --region us-east-1
	PATH="$(CURDIR)/.venv-sam/bin:$$PATH:$(dir $(PYTHON313))" SAM_CLI_TELEMETRY=0 .venv-sam/bin/sam build

jobs: $(READY)  ## Package the Glue jobs into dist/jobs, for: aws s3 sync dist/jobs s3://BUCKET/jobs
	$(BIN)/python -m glue_jobs.package dist/jobs

clean:  ## Remove environments, caches and builds.
	rm -rf .venv .venv-3.13 .venv-second .venv-sam .venv-lock .venv-audit .aws-sam .mypy_cache .ruff_cache .pytest_cache .hypothesis $(dir $(BUILT))
