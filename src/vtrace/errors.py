"""Errors that a user can act on: one line that says what is wrong and what to do."""

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


def one_line(text: object) -> str:
    """A message on one line: line breaks and control characters, which a file name can contain, are written out."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in str(text).strip())


_NO_MEMORY = ("out of memory", "can't allocate", "not enough memory")
_LOST = ("closed by peer", "connection reset by peer", "nccl", "timed out waiting")
_NOT_SUPPORTED = ("not implemented for", "not supported on", "no kernel image", "could not run 'aten::")


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error says that there is too little memory."""
    message = str(error).lower()
    return isinstance(error, MemoryError) or any(words in message for words in _NO_MEMORY)


def is_lost_process(error: BaseException) -> bool:
    """Whether an error says that a process which works on the same model has ended."""
    message = str(error).lower()
    return any(words in message for words in _LOST)


@contextmanager
def running(what: str) -> Iterator[None]:
    """Turn failures of the machine or the model (out of memory, or an operation that PyTorch does not support there)
    into an error that a run records. Anything else is a bug in VTrace and is raised unchanged."""
    try:
        yield
    except (RuntimeError, MemoryError) as error:
        if is_out_of_memory(error):
            raise ModelError(f"{what}: out of memory; use a shorter response or a smaller picture") from error
        if isinstance(error, NotImplementedError) or any(words in str(error).lower() for words in _NOT_SUPPORTED):
            raise ModelError(f"{what} cannot run on this model: {first_line(error)}") from error
        raise
