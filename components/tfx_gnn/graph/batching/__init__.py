"""Batches of graphs: dynamic batching, padding to fixed sizes, and the size constraints (the padding budget).

`pack_batches` is in `graph/codec/batch_packing.py`, because it can also pack serialized tf.Examples;
`packing_plan.py` here chooses which graphs go into a batch.
"""
