"""The parts of GraphTrainer: input, epochs, what is written."""
