#!/bin/sh
# Runs the test suite `databases`: snapshots of a PostgreSQL server, which the tests start. Arguments are passed to pytest.
set -eu
cd "$(dirname "$0")/../.."
infra/bootstrap.sh test
# Debian keeps the server's programs apart from PATH. Who may install it does so; the tests say what to type otherwise.
if [ "$(id -u)" = 0 ] && ! { command -v initdb || ls /usr/lib/postgresql/*/bin/initdb; } >/dev/null 2>&1; then
    apt-get update -q
    DEBIAN_FRONTEND=noninteractive apt-get install -q -y postgresql
fi
unset PYTHONPATH PYTHONHOME PYTHONSTARTUP VIRTUAL_ENV PYTHONDONTWRITEBYTECODE
exec .venv/bin/python -m pytest tests/databases "$@"
