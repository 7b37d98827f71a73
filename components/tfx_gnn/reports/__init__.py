"""Pages that people look at, all of one look."""
