"""Training and serving side by side."""
