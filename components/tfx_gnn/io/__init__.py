"""Files and folders: atomic, locked and fingerprinted; options as JSON."""
