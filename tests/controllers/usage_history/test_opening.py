"""Opening a usage history."""

from __future__ import annotations

import asyncio
import subprocess
import sys

import pytest

from pratique.apimachinery.errors import ConfigurationError
from pratique.controllers.usage_history import open_history
from pratique.controllers.usage_history.prometheus import PrometheusHistory
from pratique.controllers.usage_history.sqlite import SqliteHistory


@pytest.mark.parametrize(
    ("source", "kind"),
    [
        ("usage.db", SqliteHistory),
        ("/var/lib/usage: 1.db", SqliteHistory),
        ("http://localhost:9090", PrometheusHistory),
        ("HTTPS://user:word@metrics.example.com/prometheus/", PrometheusHistory),
    ],
)
def test_a_source_is_a_file_or_a_url(source: str, kind: type) -> None:
    history = open_history(source)
    assert type(history) is kind
    asyncio.run(history.close())


@pytest.mark.parametrize("source", ["influxdb", "gcm", "hawkular", "", "postgresql://u:secret@host/db"])
def test_an_unknown_source_is_rejected_in_kubernetes_words(source: str) -> None:
    with pytest.raises(ConfigurationError, match=r"^unknown data source ") as fault:
        open_history(source)
    assert "secret" not in str(fault.value)
    assert str(fault.value).endswith("name a SQLite file, or the URL of a Prometheus, http:// or https://")


@pytest.mark.parametrize(
    "source", ["http://", "http:///path", "http://host/?query=1", "https://host#part", "http://host:port/"]
)
def test_a_url_without_a_server_is_rejected(source: str) -> None:
    with pytest.raises(ConfigurationError, match="the URL of the data source"):
        open_history(source)


def test_no_client_is_imported_unless_it_is_needed() -> None:
    code = (
        "import sys; import pratique.controllers.initial_resources;"
        "print([name for name in ('aiohttp', 'sqlite3') if name in sys.modules])"
    )
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "[]"
