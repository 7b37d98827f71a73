"""Sampling plans: hops, seeds, splits and negatives, checked before anything is read."""
