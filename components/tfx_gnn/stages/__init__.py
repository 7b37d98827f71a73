"""The flow as plain functions on files, one file a stage."""
