"""Files and folders: written as a whole or not at all, locked, fingerprinted; options as JSON."""
