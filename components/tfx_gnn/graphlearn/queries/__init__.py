"""GraphLearn's graph sampling language (GSL) over graph tables in memory."""
