"""HTML reports with one look."""
