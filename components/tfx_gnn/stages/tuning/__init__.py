"""The search for hyperparameters: what is searched, how, and what was found."""
