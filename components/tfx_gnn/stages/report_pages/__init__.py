"""Pages for people: one look for the reports of all stages."""
