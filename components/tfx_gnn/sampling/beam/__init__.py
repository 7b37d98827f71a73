"""The same sampling on Apache Beam, with the same result."""
