"""Keeps an error of code that is not ours: whatever it raises is what we want to know."""

from types import TracebackType


class Caught:
    """A block whose error is kept in `error` instead of raised; leaving by the keyboard is not."""

    def __init__(self) -> None:
        self.error: BaseException | None = None

    def __enter__(self) -> "Caught":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool:
        self.error = error
        return not isinstance(error, KeyboardInterrupt)

    def text(self) -> str:
        """Return the error's type and message."""
        return f"{type(self.error).__name__}: {self.error}"
