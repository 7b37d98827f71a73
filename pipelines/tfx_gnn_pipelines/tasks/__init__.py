"""What differs between pipelines, one package a task."""
