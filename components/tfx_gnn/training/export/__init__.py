"""The trained model as one SavedModel that takes raw examples."""
