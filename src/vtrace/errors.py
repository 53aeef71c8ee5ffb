"""The errors a user can do something about: one line that says what is wrong and what to do."""

from collections.abc import Iterator
from contextlib import contextmanager


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


@contextmanager
def running(what: str) -> Iterator[None]:
    """What PyTorch cannot do in this block, for lack of memory above all, as an error of the model."""
    try:
        yield
    except RuntimeError as error:
        if "out of memory" in str(error) or "can't allocate" in str(error):
            raise ModelError(f"{what}: out of memory; use a shorter response or a smaller picture") from error
        raise ModelError(f"{what} cannot run on this model: {first_line(error)}") from error
