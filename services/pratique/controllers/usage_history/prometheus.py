"""Usage histories in Prometheus, or in any server with its HTTP API."""

from __future__ import annotations

import math
import ssl
from collections.abc import Mapping
from typing import Literal

import aiohttp
import msgspec
import re2  # type: ignore[import-untyped] # google-re2 comes without types
import yarl

from pratique.apimachinery.errors import ConfigurationError
from pratique.apimachinery.prepared_types import prepared
from pratique.controllers.usage_history import (
    NO_SAMPLES,
    Usage,
    UsageHistoryError,
    UsageQuery,
    round_up_amount,
)

STEP_SECONDS = 300
"""The interval between samples. A rate needs two points of a counter, so scrapes may be up to two minutes apart. A
month of one container has 8,640 samples; by default, Prometheus loads 50,000,000, which is enough for 5,700
containers."""

_QUERIES: Mapping[str, str] = {
    "cpu": f"1000 * rate(container_cpu_usage_seconds_total{{}}[{STEP_SECONDS}s])",
    "memory": "container_memory_working_set_bytes{}",
}
"""Millicores and bytes; the braces take the selector of the series."""

ANSWER_LABEL = "answer"
USAGE, SAMPLES = "usage", "samples"


def promql(query: UsageQuery) -> str:
    """Write the query: an instant vector with two elements, distinguished by the label ``answer``.

    Prometheus cannot rank the samples of several series together. So the query takes the percentile of each
    container, and then the percentile of those: of a hundred containers, this many used at most that much for this
    share of their time.
    """
    samples = f"({_selected_series(query)})[{query.end - query.start}s:{STEP_SECONDS}s]"
    quantile = f"{query.percentile / 100:g}"
    return " or ".join(
        (
            _labelled(USAGE, f"quantile({quantile}, quantile_over_time({quantile}, {samples}))"),
            _labelled(SAMPLES, f"sum(count_over_time({samples}))"),
        )
    )


def _selected_series(query: UsageQuery) -> str:
    return _QUERIES[query.resource].replace("{}", f"{{{','.join(_matchers(query))}}}")


def _matchers(query: UsageQuery) -> list[str]:
    if query.any_tag:
        # Prometheus anchors patterns at both ends.
        image = f"image=~{promql_string(f'{re2.escape(query.image)}([:@].*)?')}"
    else:
        image = f"image={promql_string(query.image)}"
    return [image, *([f"namespace={promql_string(query.namespace)}"] if query.namespace else [])]


def _labelled(name: str, expression: str) -> str:
    return f'label_replace({expression}, "{ANSWER_LABEL}", "{name}", "", "")'


def promql_string(text: str) -> str:
    """Write a PromQL string, which has Go's escapes."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


ANSWER_LIMIT = 64 * 1024
"""The maximum size of an answer in bytes. A normal one has two numbers; an error quotes the query, which is ten times
smaller than this."""

_TIMEOUT_SECONDS = 30.0
"""The timeout of a query; callers usually give up earlier."""


class _VectorElement(msgspec.Struct, frozen=True):
    metric: dict[str, str]
    value: tuple[float, str]
    """The time and the amount; numbers are strings, because JSON has no infinity."""


class _Vector(msgspec.Struct, frozen=True, rename="camel"):
    result_type: Literal["vector"]
    result: list[_VectorElement]


class _PrometheusAnswer(msgspec.Struct, frozen=True):
    """Source: https://prometheus.io/docs/prometheus/latest/querying/api/ ."""

    status: Literal["success"]
    data: _Vector


class PrometheusHistory:
    """A history that is queried over HTTP. It keeps connections until it is closed."""

    def __init__(self, url: yarl.URL) -> None:
        """Connect to nothing yet. ``url`` is that of the server, with any path before ``/api``."""
        self._url = (url / "api/v1/query").with_user(None)
        self._headers = {"Accept": "application/json", "Accept-Encoding": "identity"}
        if url.user:
            credentials = aiohttp.encode_basic_auth(url.user, url.password or "", "utf-8")
            self._headers["Authorization"] = credentials
        # Servers are verified by their alternative names, never by their common name, as in Go.
        self._context = ssl.create_default_context()
        self._context.hostname_checks_common_name = False
        self._session: aiohttp.ClientSession | None = None

    async def usage(self, query: UsageQuery) -> Usage:
        """Find a percentile; see :class:`pratique.controllers.usage_history.UsageHistory`."""
        # In the body: proxies log URLs.
        form = {"query": promql(query), "time": str(query.end)}
        try:
            async with self._opened().post(self._url, data=form, allow_redirects=False) as response:
                status, body = response.status, await _read_body(response)
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            # The texts of these errors may contain what was sent.
            raise UsageHistoryError(f"Prometheus cannot be queried: {type(error).__name__}") from None
        if status != 200:
            raise UsageHistoryError(f"Prometheus answered with code {status}")
        return _decode_usage(body)

    async def close(self) -> None:
        """Close all connections."""
        if self._session is not None:
            await self._session.close()

    def _opened(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(ssl=self._context),
                cookie_jar=aiohttp.DummyCookieJar(),
                headers=self._headers,
                timeout=aiohttp.ClientTimeout(total=_TIMEOUT_SECONDS),
            )
        return self._session


async def _read_body(response: aiohttp.ClientResponse) -> bytes:
    body = bytearray()
    async for chunk in response.content.iter_any():
        body += chunk
        if len(body) > ANSWER_LIMIT:
            raise UsageHistoryError(f"Prometheus answered with more than {ANSWER_LIMIT} bytes")
    return bytes(body)


def _decode_usage(body: bytes) -> Usage:
    try:
        answer = msgspec.json.decode(body, type=prepared(_PrometheusAnswer))
        numbers = {
            element.metric.get(ANSWER_LABEL): float(element.value[1]) for element in answer.data.result
        }
    except (msgspec.MsgspecError, ValueError):
        raise UsageHistoryError("Prometheus did not answer with two numbers") from None
    return _usage_from_numbers(numbers)


def _usage_from_numbers(numbers: Mapping[str | None, float]) -> Usage:
    """Without matching series both numbers are missing. A usage of NaN has no samples either."""
    usage, samples = numbers.get(USAGE, math.nan), numbers.get(SAMPLES, 0.0)
    if math.isnan(usage) or not samples > 0:
        return NO_SAMPLES
    return Usage(round_up_amount(usage), round_up_amount(samples))


def open_history(source: str) -> PrometheusHistory:
    """Open the server at a URL.

    Raises:
        ConfigurationError: It is not the URL of a server.
    """
    try:
        url = yarl.URL(source)
    except ValueError:
        raise ConfigurationError("the URL of the data source is malformed") from None
    if not url.host or url.query_string or url.fragment:
        raise ConfigurationError(
            "the URL of the data source must be that of a server, without query and fragment"
        )
    return PrometheusHistory(url)
