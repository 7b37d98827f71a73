# Everything that can be asked of this project by one word. Needs make, git, a Python 3 and package
# registries; uv, the interpreter and the packages are found or installed by infra/bootstrap.sh.

.DEFAULT_GOAL := help
.NOTPARALLEL:
SHELL := /bin/sh
# Settings of whoever calls that would lead Python to other packages than those in .venv.
unexport PYTHONPATH PYTHONHOME PYTHONSTARTUP VIRTUAL_ENV
# Without bytecode, each process would compile TensorFlow and TFX anew, for half a minute.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help
help:  ## Print this list
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## /{printf "make %-11s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: quickstart
quickstart:  ## Install, then train, check and push a model on real data (runs/debian_sections)
	@infra/bootstrap.sh quickstart
	@.venv/bin/tfx-gnn run debian_sections --runner local

.PHONY: test
test:  ## Install, then run most tests, and whole pipelines on both runners, within minutes
	@infra/ci/fast.sh

.PHONY: test-all
test-all: unit components e2e  ## Install, then run all tests of this machine's lane

.PHONY: lint
lint:  ## Check style, types, import arrows and the lock
	@infra/ci/lint.sh

.PHONY: unit
unit:  ## Run the tests of the library and of the house rules
	@infra/ci/unit.sh

.PHONY: components
components:  ## Run the tests of the TFX components
	@infra/ci/components.sh

.PHONY: e2e
e2e:  ## Run the tests of whole pipelines and of what they push
	@infra/ci/e2e.sh

.PHONY: docs
docs:  ## Build the documentation site (build/site) and check its links
	@infra/ci/docs.sh

.PHONY: package
package:  ## Build and check sdist and wheel (build/package), and use the wheel in a new environment
	@infra/ci/package.sh

.PHONY: release
release:  ## Build and check a release on both lanes (build/release), as a rehearsal (as root)
	@infra/bootstrap.sh test
	@.venv/bin/python infra/ci/release.py $(RELEASE_ARGUMENTS)

.PHONY: benchmarks
benchmarks:  ## Install, then compare speed and memory with what else there is (not a test)
	@infra/bootstrap.sh test
	@.venv/bin/python -m pytest benchmarks

.PHONY: newest
newest:  ## Run unit tests and quickstart on the newest releases, in a Debian 13 root (as root)
	@infra/ci/newest.sh

.PHONY: containers
containers:  ## Build the images, push them to a registry here, run compiled tasks from there (as root)
	@infra/ci/containers.sh

.PHONY: stores
stores:  ## Run pipelines and pushes on object stores that run here (as root, or with user namespaces)
	@infra/ci/stores.sh

.PHONY: databases
databases:  ## Take snapshots of a PostgreSQL server that the tests start (apt-get install postgresql)
	@infra/ci/databases.sh

.PHONY: format
format:  ## Rewrite the source in the project's format
	@infra/bootstrap.sh test
	@.venv/bin/ruff check --fix --quiet . ; .venv/bin/ruff format --quiet .

.PHONY: clean
clean:  ## Remove what was installed, cached and made here (runs/ stays)
	@rm -rf .venv .tools .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache build dist
	@find components pipelines infra tests -name __pycache__ -type d -prune -exec rm -rf {} +
