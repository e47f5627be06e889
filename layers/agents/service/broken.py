"""What breaks under an author: a disk, a file that cannot be read, a tool of ours.

It says nothing about a model, a program or an issue. Whoever it broke under has failed by name, in its
story, and the run goes on. Not so where the journal or the ledger cannot be written: that stops the
run (`RunStopped`), for what is done or spent from then on would be lost.
"""

from __future__ import annotations

from layers.errors import FvecError

BROKEN = (FvecError, OSError)  # to be caught after RunStopped, which is one of them


def told(error: Exception) -> str:
    """Return what broke in words: of an error of the system what it says, and of which file."""
    if not isinstance(error, OSError):
        return str(error)
    words = error.strerror or type(error).__name__
    return f"{words}: {error.filename}" if error.filename else words
