"""Rounds of questions and answers between the blocks of seeds and the index."""
