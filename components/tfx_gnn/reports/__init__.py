"""HTML reports with a common look."""
