"""Graph neural networks that are ready to use, and the tasks they are trained for."""
