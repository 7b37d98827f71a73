"""The same pipeline on four runners, one file each."""
