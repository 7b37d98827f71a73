"""The one error that the bootstrap shows without a traceback."""


class SetupError(Exception):
    """Says in one message what is missing on this machine and what to install or set."""
