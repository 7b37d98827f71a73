"""Public data sets as graph tables, built from local files or from Python packages.

Needs pyarrow (the extra `beam`).
"""
