"""What a model is worth."""
