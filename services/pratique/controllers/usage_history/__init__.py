"""Usage histories: how much CPU and memory the containers of an image have used.

The query, its result, and how to open a history; the modules of the package read them.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Mapping
from typing import Protocol

import msgspec

from pratique.apimachinery.errors import ConfigurationError, PratiqueError

LONGEST_IMAGE_NAME = 520
"""The length of the longest possible image name: 255 characters of the repository, a colon and 128 of the tag, an at
sign, ``sha512``, a colon and 128 of the digest. Source: ``github.com/distribution/reference``."""


def image_repository(image: str) -> str:
    """The image without tag and digest: ``registry.example.com:5000/shop/web:v1`` is ``…:5000/shop/web``."""
    name = image.partition("@")[0]
    # A colon before a slash precedes a port.
    colon = name.rfind(":")
    return name[:colon] if colon > name.rfind("/") else name


class UsageHistoryError(PratiqueError):
    """A history cannot be read. The text says why, and contains nothing of any reviewed object."""


class UsageQuery(msgspec.Struct, frozen=True, kw_only=True):
    """How much of a resource the containers of an image used in a period."""

    resource: str
    """``cpu`` or ``memory``."""
    percentile: int
    """From 1 to 100: this percentage of the samples is at or below the answer."""
    image: str
    """The image as Pods name it, with tag or digest; without them if ``any_tag`` is true."""
    any_tag: bool = False
    """Whether samples count whatever their tag or digest."""
    namespace: str = ""
    """Only samples of Pods in this namespace count; empty for all."""
    start: int
    """Only later samples count: seconds since 1970, UTC."""
    end: int
    """Samples up to and including this time count: seconds since 1970, UTC."""


class Usage(msgspec.Struct, frozen=True):
    """A percentile of samples."""

    amount: int = 0
    """Millicores of CPU or bytes of memory, rounded up. Meaningless without samples."""
    samples: int = 0
    """How many samples there are."""


NO_SAMPLES = Usage()
"""The answer without samples."""


class UsageHistory(Protocol):
    """A store of usage samples."""

    async def usage(self, query: UsageQuery) -> Usage:
        """Find a percentile of the samples that a query selects.

        If the caller gives up, the query stops.

        Raises:
            UsageHistoryError: The history cannot be read.
        """

    async def close(self) -> None:
        """Close everything. There are no further queries."""


def round_up_amount(value: float) -> int:
    """Round an amount up, so that nobody gets less than was used.

    Raises:
        UsageHistoryError: It cannot be an amount.
    """
    # A Quantity is an int64 in Kubernetes.
    if not math.isfinite(value) or not 0 <= value < 2**63:
        raise UsageHistoryError("an amount in the history is out of range")
    return math.ceil(value)


_REMOVED_SOURCES = frozenset({"influxdb", "gcm", "hawkular"})
"""Values of ``--ir-data-source`` that Kubernetes accepted."""

_READERS: Mapping[str, str] = {
    "": "pratique.controllers.usage_history.sqlite",
    "http": "pratique.controllers.usage_history.prometheus",
    "https": "pratique.controllers.usage_history.prometheus",
}
"""The module that reads a history, by the scheme of its URL; empty for a file.

They are imported late: few chains have a history, and only those may use the network."""


def open_history(source: str) -> UsageHistory:
    """Open the history that ``source`` names, a SQLite file or a Prometheus server. It reads nothing yet.

    Raises:
        ConfigurationError: The kind is unknown, or the URL is malformed.
    """
    scheme, is_url, _ = source.partition("://")
    module = _READERS.get(scheme.lower() if is_url else "")
    if module is None or not source or source in _REMOVED_SOURCES:
        # Only the scheme of a URL: the rest may contain a password.
        raise ConfigurationError(
            f"unknown data source {f'{scheme}://' if is_url else source}:"
            " name a SQLite file, or the URL of a Prometheus, http:// or https://"
        )
    history: UsageHistory = importlib.import_module(module).open_history(source)
    return history
