"""Opening a usage history by what names it: a file or a URL."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from pratique.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pratique.usage_histories.usages import UsageHistory

_GONE = frozenset({"influxdb", "gcm", "hawkular"})
"""What Kubernetes took for ``--ir-data-source``."""

_KINDS: Mapping[str, str] = {
    "": "pratique.usage_histories.sqlite_histories",
    "http": "pratique.usage_histories.prometheus_histories",
    "https": "pratique.usage_histories.prometheus_histories",
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
    module = _KINDS.get(scheme.lower() if is_url else "")
    if module is None or not source or source in _GONE:
        # No more of a URL than its scheme: it may hold a password.
        raise ConfigurationError(
            f"unknown data source {f'{scheme}://' if is_url else source}:"
            " name a SQLite file, or the URL of a Prometheus, http:// or https://"
        )
    history: UsageHistory = importlib.import_module(module).open_history(source)
    return history
