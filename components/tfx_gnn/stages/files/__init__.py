"""Files and folders of a stage: written whole or not at all, read with their places."""
