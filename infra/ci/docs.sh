#!/bin/sh
# Builds the documentation site into build/site, where any warning is an error, and checks the links of what came of it.
set -eu
cd "$(dirname "$0")/../.."
infra/bootstrap.sh test
unset PYTHONPATH PYTHONHOME PYTHONSTARTUP VIRTUAL_ENV PYTHONDONTWRITEBYTECODE

# The theme's remark on a later release of MkDocs.
NO_MKDOCS_2_WARNING=true .venv/bin/mkdocs build --strict
.venv/bin/python infra/site/check_site.py build/site
echo "docs: $(find build/site -name '*.html' | wc -l) pages in build/site"
