"""Usage histories: what one is asked, what it answers, and how one is opened."""

from __future__ import annotations

import dataclasses
import importlib
import math
from collections.abc import Mapping
from typing import Protocol

from pratique.apimachinery.errors import ConfigurationError, PratiqueError

LONGEST_IMAGE_NAME = 520
"""Characters of the longest name there can be: 255 of the repository, a colon and 128 of the tag, an at sign,
``sha512``, a colon and 128 of the digest. Source: ``github.com/distribution/reference``.
"""


def image_repository(image: str) -> str:
    """The image without tag and digest: ``registry.example.com:5000/shop/web:v1`` is ``…:5000/shop/web``."""
    name = image.partition("@")[0]
    # A colon in front of a slash stands before a port.
    colon = name.rfind(":")
    return name[:colon] if colon > name.rfind("/") else name


class UsageHistoryError(PratiqueError):
    """A history cannot be read. The text says why, and holds nothing of any reviewed object."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class UsageQuery:
    """How much of a resource did the containers of an image use in a span of time?"""

    resource: str
    """``cpu`` or ``memory``."""
    percentile: int
    """From 1 to 100: so many in a hundred samples are to be at or below the answer."""
    image: str
    """The image as Pods name it, tag or digest included; without them where ``any_tag`` is true."""
    any_tag: bool = False
    """Samples of the image count whatever their tag or digest."""
    namespace: str = ""
    """Samples of Pods of this namespace count; empty: of all."""
    start: int
    """Later samples count: seconds since 1970, UTC."""
    end: int
    """Samples up to then count: seconds since 1970, UTC."""


@dataclasses.dataclass(frozen=True, slots=True)
class Usage:
    """A percentile of samples."""

    amount: int = 0
    """Millicores of cpu or bytes of memory, rounded up. Means nothing where there are no samples."""
    samples: int = 0
    """How many there are."""


NO_SAMPLES = Usage()
"""Nothing is known."""


class UsageHistory(Protocol):
    """Somewhere that usage has been written down."""

    async def usage(self, query: UsageQuery) -> Usage:
        """Find a percentile of the samples that a query asks for.

        Whoever asks may give up waiting; nothing goes on then.

        Raises:
            UsageHistoryError: the history cannot be read.
        """

    async def close(self) -> None:
        """Let go of all that is held open. Nothing is asked afterwards."""


def round_up_amount(value: float) -> int:
    """Round an amount up to the whole; nobody is promised less than was used.

    Raises:
        UsageHistoryError: it is not a number that an amount can be.
    """
    # A Quantity is an int64 in Kubernetes.
    if not math.isfinite(value) or not 0 <= value < 2**63:
        raise UsageHistoryError("an amount in the history is out of range")
    return math.ceil(value)


_REMOVED_SOURCES = frozenset({"influxdb", "gcm", "hawkular"})
"""What Kubernetes took for ``--ir-data-source``."""

_READERS: Mapping[str, str] = {
    "": "pratique.controllers.usage_history.sqlite",
    "http": "pratique.controllers.usage_history.prometheus",
    "https": "pratique.controllers.usage_history.prometheus",
}
"""By the scheme of a URL, empty for a file, the module that reads such a history.

They are imported when one is opened: few chains have one, and the network is for those alone that do.
"""


def open_history(source: str) -> UsageHistory:
    """Make a history ready to be read: the SQLite file or the Prometheus that ``source`` names. Nothing is read yet.

    Raises:
        ConfigurationError: nothing of that kind is known, or the URL is none.
    """
    scheme, is_url, _ = source.partition("://")
    module = _READERS.get(scheme.lower() if is_url else "")
    if module is None or not source or source in _REMOVED_SOURCES:
        # No more of a URL than its scheme: it may hold a password.
        raise ConfigurationError(
            f"unknown data source {f'{scheme}://' if is_url else source}:"
            " name a SQLite file, or the URL of a Prometheus, http:// or https://"
        )
    history: UsageHistory = importlib.import_module(module).open_history(source)
    return history
