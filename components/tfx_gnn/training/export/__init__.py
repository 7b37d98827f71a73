"""The trained model as one SavedModel that answers raw examples."""
