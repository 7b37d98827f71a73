#!/bin/sh
# Runs the test suite `databases`: snapshots of a PostgreSQL server, which the tests start. Arguments are passed to pytest.
set -eu
cd "$(dirname "$0")/../.."
infra/bootstrap.sh test
unset PYTHONPATH PYTHONHOME PYTHONSTARTUP VIRTUAL_ENV PYTHONDONTWRITEBYTECODE
exec .venv/bin/python -m pytest tests/databases "$@"
