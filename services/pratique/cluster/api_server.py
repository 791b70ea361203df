"""Calls to an API server: pages of lists, watches, and creations, with the credentials of a kubeconfig or of a Pod.

Kubernetes' own client loads the credentials and speaks TLS; objects are decoded here, because thousands come at once.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import functools
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from pratique.apimachinery.errors import CallError, ConfigurationError
from pratique.apimachinery.json_values import JSONObject
from pratique.apimachinery.prepared_types import prepared

_PAGE_OBJECTS = "500"
"""Source: ``k8s.io/client-go/tools/pager`` ``defaultPageSize``."""
_MAX_PAGE_BYTES = 512 << 20
_MAX_EVENT_BYTES = 16 << 20
"""Far more than the 1.5 MiB that etcd stores of an object."""
_MAX_ERROR_BYTES = 64 << 10
_CONNECT_SECONDS = 5.0
_ANSWER_SECONDS = 30.0

METADATA_ONLY = "application/json;as=PartialObjectMetadata{list};g=meta.k8s.io;v=v1"
"""What to accept where the metadata of objects is enough; ``{list}`` becomes ``List`` for lists."""
_JSON = "application/json"


class ApiServerError(CallError):
    """An API server refused a call, could not be reached, or sent something unusable; ``code`` is 0 without answer."""


class ConnectionLostError(ApiServerError):
    """The connection ended before the API server answered."""


class WatchEvent(msgspec.Struct, frozen=True):
    """``metav1.WatchEvent``."""

    type: str
    object: JSONObject


class _ListMetadata(msgspec.Struct, frozen=True, rename="camel"):
    resource_version: str = ""
    continue_: str = msgspec.field(default="", name="continue")


class _Page(msgspec.Struct, frozen=True):
    metadata: _ListMetadata
    items: list[JSONObject] | None = None


_pages = msgspec.json.Decoder(prepared(_Page))
_events = msgspec.json.Decoder(prepared(WatchEvent))


class ApiServer:
    """One API server, called as one user."""

    def __init__(self, client: Any, renew: Any) -> None:
        """Call through a client of ``kubernetes_asyncio``; ``renew`` loads its credentials again."""
        self._client = client
        self._renew = renew

    @property
    def host(self) -> str:
        """Its URL."""
        return str(self._client.configuration.host)

    async def close(self) -> None:
        """Close all connections."""
        await self._client.close()

    async def get(self, path: str) -> JSONObject:
        """Read one object.

        Raises:
            ApiServerError: there is none, or it cannot be read.
        """
        async with self._answer("GET", path) as response:
            found: JSONObject = _decoded(msgspec.json.decode, await _read(response, _MAX_EVENT_BYTES))
            return found

    async def create(self, path: str, document: JSONObject) -> JSONObject:
        """Create an object. Gives it as the API server does.

        Raises:
            ApiServerError: it was not created; ``code`` is 409 if one of its name exists.
        """
        async with self._answer("POST", path, body=document) as response:
            created: JSONObject = _decoded(msgspec.json.decode, await _read(response, _MAX_EVENT_BYTES))
            return created

    async def list(
        self, path: str, accept: str = _JSON, label_selector: str = ""
    ) -> tuple[list[JSONObject], str]:
        """Read all objects of a collection that a selector matches, page by page, and the version that they are of.

        Raises:
            ApiServerError: they cannot be read; ``code`` is 410 if they changed too much between two pages.
        """
        found: list[JSONObject] = []
        query = first = {"limit": _PAGE_OBJECTS, **_selecting(label_selector)}
        while True:
            async with self._answer("GET", path, query, accept.format(list="List")) as response:
                page = _decoded(_pages.decode, await _read(response, _MAX_PAGE_BYTES))
            found += page.items or ()
            if not page.metadata.continue_:
                return found, page.metadata.resource_version
            query = {**first, "continue": page.metadata.continue_}

    async def watch(
        self, path: str, version: str, seconds: int, accept: str = _JSON, label_selector: str = ""
    ) -> AsyncIterator[Sequence[WatchEvent]]:
        """Yield the changes since a version in batches, first an empty one; end when the server ends the watch.

        Raises:
            ApiServerError: the watch failed; ``code`` is 410 if the server has forgotten the version.
        """
        query = {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": version,
            "timeoutSeconds": str(seconds),
            **_selecting(label_selector),
        }
        async with self._answer(
            "GET", path, query, accept.format(list=""), seconds=seconds + _CONNECT_SECONDS
        ) as response:
            yield ()
            rest = b""
            async for chunk in response.content.iter_any():
                *lines, rest = (rest + chunk).split(b"\n")
                if len(rest) > _MAX_EVENT_BYTES:
                    raise ApiServerError("an event of a watch is too long", 0)
                if lines:
                    yield [_event(line) for line in lines if line]

    @contextlib.asynccontextmanager
    async def _answer(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None = None,
        accept: str = _JSON,
        *,
        body: JSONObject | None = None,
        seconds: float = _ANSWER_SECONDS,
    ) -> AsyncIterator[Any]:
        """Send a request and check the code of its answer, whose body is still to be read."""
        import aiohttp  # noqa: PLC0415 - only where an API server is called

        timeout = aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_SECONDS, sock_read=seconds)
        headers = {"Accept": accept}
        try:
            await self._client.update_params_for_auth(headers, [], ["BearerToken"])
            response = await self._client.rest_client.request(
                method,
                self._client.configuration.host + path,
                query_params=query,
                headers=headers,
                body=body,
                _preload_content=False,
                _request_timeout=timeout,
            )
            async with response:
                if response.status >= 300:
                    raise await self._refusal(response)
                yield response
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            is_lost = isinstance(error, aiohttp.ServerDisconnectedError) or (
                isinstance(error, OSError) and error.errno == errno.ECONNRESET
            )
            failure = ConnectionLostError if is_lost else ApiServerError
            raise failure(f"{type(error).__name__}: {error}", 0) from None

    async def _refusal(self, response: Any) -> ApiServerError:
        body = await _read(response, _MAX_ERROR_BYTES)
        if response.status == 401:
            await self._renew()
        try:
            text = str(msgspec.json.decode(body)["message"])
        except (msgspec.DecodeError, KeyError, TypeError):
            text = f"HTTP {response.status}"
        return ApiServerError(text[:500], response.status)


async def connect(kubeconfig: Path | None, context: str = "") -> ApiServer:
    """Load the credentials of a kubeconfig's context; without a kubeconfig, those of this Pod's ServiceAccount.

    Raises:
        ConfigurationError: they cannot be used, or the package that speaks to API servers is not installed.
    """
    try:
        from kubernetes_asyncio import config  # noqa: PLC0415 - an extra, and slow to import
        from kubernetes_asyncio.client import ApiClient, Configuration  # noqa: PLC0415
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "kubernetes_asyncio":
            raise
        raise ConfigurationError(
            "a live cluster needs more packages: pip install 'pratique[cluster]'"
        ) from None

    configuration = Configuration()

    async def load() -> None:
        if kubeconfig is None:
            load_pod: Any = config.load_incluster_config  # without types there
            load_pod(client_configuration=configuration)
        else:
            await config.load_kube_config(
                str(kubeconfig), context or None, configuration, persist_config=False
            )

    try:
        await load()
        return ApiServer(ApiClient(configuration), functools.partial(_renew, load))
    except Exception as error:  # noqa: BLE001 - the client raises what its parts raise: YAML, OpenSSL, files, plugins
        where = f"the kubeconfig {kubeconfig}" if kubeconfig else "the ServiceAccount of this Pod"
        # other errors speak of the client's code, and their texts may hold credentials
        is_told = isinstance(error, config.ConfigException | OSError)
        reason = str(error) if is_told else f"it is malformed ({type(error).__name__})"
        raise ConfigurationError(f"{where} cannot be used: {reason}") from None


async def _renew(load: Any) -> None:
    try:
        await load()
    except Exception as error:  # noqa: BLE001 - as in connect()
        raise ApiServerError(f"the credentials cannot be loaded: {type(error).__name__}", 0) from None


async def _read(response: Any, most: int) -> bytes:
    parts: list[bytes] = []
    length = 0
    async for chunk in response.content.iter_any():
        length += len(chunk)
        if length > most:
            raise ApiServerError(f"an answer is longer than {most} bytes", 0)
        parts.append(chunk)
    return b"".join(parts)


def _selecting(label_selector: str) -> dict[str, str]:
    return {"labelSelector": label_selector} if label_selector else {}


def _decoded(decode: Any, body: bytes) -> Any:
    try:
        return decode(body)
    except (msgspec.DecodeError, msgspec.ValidationError, RecursionError):
        raise ApiServerError("an answer is not what an API server sends", 0) from None


def _event(line: bytes) -> WatchEvent:
    event: WatchEvent = _decoded(_events.decode, line)
    if event.type == "ERROR":
        code = event.object.get("code")
        text = str(event.object.get("message", ""))[:500]
        raise ApiServerError(text, code if isinstance(code, int) else 0)
    return event


class Backoff(msgspec.Struct):
    """Growing pauses between attempts, each with up to as much again at random.

    Source: ``k8s.io/client-go/tools/cache/reflector.go`` ``NewReflectorWithOptions``: from 800 ms, doubled. The longest
    is shorter than there, so that a cluster that is back is followed again within seconds.
    """

    seconds: float = 0.0
    first: float = 0.8
    longest: float = 8.0

    def reset(self) -> None:
        """Begin anew after a success."""
        self.seconds = 0.0

    async def pause(self) -> None:
        """Wait before the next attempt."""
        import random  # noqa: PLC0415 - only after a failure

        self.seconds = min(self.seconds * 2 or self.first, self.longest)
        await asyncio.sleep(self.seconds * (1 + random.random()))  # noqa: S311 - spreads load, guards nothing
