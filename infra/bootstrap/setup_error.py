"""The one error that the bootstrap shows without a traceback."""


class SetupError(Exception):
    """Its message says what is missing on this machine and what to install or set."""
