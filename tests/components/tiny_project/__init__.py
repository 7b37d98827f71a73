"""A whole project in small: the topic of 24 papers, which their scores give away."""
