"""Training on many devices and machines: strategies of tf.distribute, sharded input, and readiness for TPUs."""
