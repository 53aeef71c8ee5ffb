"""The errors a user can do something about: one line that says what is wrong and what to do."""


class VTraceError(Exception):
    """Base of all errors that the command line prints without a traceback."""

    exit_code = 2


class InputError(VTraceError):
    """The picture, question, target or file that was given cannot be used."""


class ModelError(VTraceError):
    """The model cannot be loaded, or cannot be explained faithfully."""

    exit_code = 3


def first_line(error: BaseException) -> str:
    """The first line of a message, without its closing full stop."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")
