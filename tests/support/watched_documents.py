"""Documents that tell in which threads they are read."""

from __future__ import annotations

import threading
from typing import Any

from pratique.apimachinery.json_values import Document


class WatchedDocument(Document):
    """A document that knows which threads have read it, in order."""

    def __init__(self, raw: bytes) -> None:
        """Hold a JSON text."""
        super().__init__(raw)
        self.threads: list[str] = []

    @property
    def data(self) -> Any:
        """The value, as of any document."""
        self.threads.append(threading.current_thread().name)
        return super().data


class EndlessDocument(Document):
    """A document whose reading never ends by itself."""

    def __init__(self) -> None:
        """Not read yet."""
        super().__init__(b"{}")
        self.ended = threading.Event()
        """Set once the first reading was ended from outside."""

    @property
    def data(self) -> Any:
        """No value ever."""
        try:
            while True:
                pass
        finally:
            self.ended.set()
