"""gRPC channels of the front door: their options, targets, and replacement when names or credentials change."""

from __future__ import annotations

import asyncio
import ipaddress
import json
import logging
import socket
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeAlias

import grpc
import msgspec

from pratique.apimachinery.errors import ConfigurationError
from pratique.apimachinery.patterns import pattern

MAX_TOKENS = 600
"""Each failed call costs a token, and calls are retried while more than half are left. 600 is what a kube-apiserver
with default flags has in flight: when one of two replicas dies, its 300 calls can be retried."""
MAX_ATTEMPTS = 2
"""How often gRPC itself tries a call, the first time included. 2: a review that ends replicas must not end them all."""
TOKEN_RATIO = 0.1
"""Tokens that each successful call returns: in the long run at most a tenth of the calls is retried."""

Options: TypeAlias = tuple[tuple[str, int | str], ...]

_MESSAGE_LIMIT = 16 * 1024 * 1024
"""Both ways. A legal review has two objects of 3 MiB; gRPC's own limit of 4 MiB would refuse it."""

_RETRIED_BYTES = 2 * _MESSAGE_LIMIT
"""gRPC counts metadata and its own structures as well."""

_SERVICE_CONFIG: dict[str, object] = {
    "loadBalancingConfig": [{"round_robin": {}}],
    "methodConfig": [
        {
            "name": [
                {"service": "pratique.admission.v1.MutatorService"},
                {"service": "pratique.admission.v1.ValidatorService"},
            ],
            # Both calls are pure by contract, so a call whose replica died can be retried on another. gRPC marks
            # retries for the call that charges quota. CANCELLED, which nobody here asks for, is how a service of gRPC's
            # core ends a call that reaches it just as it begins to stop.
            "retryPolicy": {
                "maxAttempts": MAX_ATTEMPTS,
                "initialBackoff": "0.02s",
                "maxBackoff": "0.2s",
                "backoffMultiplier": 3,
                "retryableStatusCodes": ["UNAVAILABLE", "CANCELLED"],
            },
        }
    ],
    "retryThrottling": {"maxTokens": MAX_TOKENS, "tokenRatio": TOKEN_RATIO},
}

_HEALTH_CHECKED_CONFIG = _SERVICE_CONFIG | {"healthCheckConfig": {"serviceName": ""}}
"""A draining replica reports NOT_SERVING before it stops, and gets no more calls from then on."""

_COMMON_OPTIONS: Options = (
    ("grpc.max_send_message_length", _MESSAGE_LIMIT),
    ("grpc.max_receive_message_length", _MESSAGE_LIMIT),
    # Larger requests are not retried. gRPC's 256 KiB would exclude every review of a large object.
    ("grpc.per_rpc_retry_buffer_size", _RETRIED_BYTES),
    # 100 ms to 2 s: a returning replica must be found within the timeout of a review, not within gRPC's two minutes.
    ("grpc.initial_reconnect_backoff_ms", 100),
    # The timeout of a connection attempt, whatever gRPC calls it: TLS between continents takes 1 s.
    ("grpc.min_reconnect_backoff_ms", 5000),
    ("grpc.max_reconnect_backoff_ms", 2000),
    # Each transport has its own subchannels, so that closing one does not affect another.
    ("grpc.use_local_subchannel_pool", 1),
)

_SUITE_OPTIONS: Options = (
    # A replica that is frozen, or cut off by the network, is noticed 7 s after its last sign of life, and its calls are
    # retried on another: within the 10 s that a review has by default.
    ("grpc.keepalive_time_ms", 4_000),
    ("grpc.keepalive_timeout_ms", 3_000),
    # gRPC's default of 60 s is for the pings by which it measures bandwidth, and a frozen replica may owe one of those.
    ("grpc.http2.ping_timeout_ms", 3_000),
    # Its default of 2 would delay the third ping by a minute while no call is made.
    ("grpc.http2.max_pings_without_data", 0),
)

_WEBHOOK_OPTIONS: Options = (
    # Servers with gRPC's defaults disconnect clients that ping three times during one call; no call takes longer than
    # 30 s.
    ("grpc.keepalive_time_ms", 30_000),
    ("grpc.keepalive_timeout_ms", 5_000),
)


def channel_options(*, ours: bool, server_name: str = "", retries: bool = True) -> Options:
    """Return the options of a channel to services of this suite, which have health checks, or to other services.

    ``server_name`` is the expected name in their certificates, if it is not that of the target. Without ``retries``,
    the caller retries calls itself.
    """
    config = json.dumps(_HEALTH_CHECKED_CONFIG if ours else _SERVICE_CONFIG)
    named: Options = (("grpc.ssl_target_name_override", server_name),) if server_name else ()
    retried = ("grpc.enable_retries", int(retries))
    return (
        *_COMMON_OPTIONS,
        retried,
        *(_SUITE_OPTIONS if ours else _WEBHOOK_OPTIONS),
        *named,
        ("grpc.service_config", config),
    )


_CONNECT_SECONDS = 5.0
"""How long a new channel may take to connect before it is used anyway, or given up."""
DRAIN_SECONDS = 30.0
"""How long calls in flight keep the channel that they began on: the longest timeout of a webhook."""


class RenewableChannel:
    """A channel that can be replaced: for new addresses behind a name, or new credentials.

    The new channel connects first and gets all new calls; calls in flight finish on the old one.
    """

    def __init__(
        self, open_channel: Callable[[], grpc.aio.Channel], use: Callable[[grpc.aio.Channel], None]
    ) -> None:
        """Open the first channel; it connects on first use.

        Args:
            open_channel: Returns a new channel with the current addresses and credentials.
            use: Called with each channel that is to get calls, with the first one immediately.
        """
        self._open = open_channel
        self._use = use
        self._renewing = asyncio.Lock()
        self._draining: set[asyncio.Task[None]] = set()
        self._current = open_channel()
        use(self._current)

    @property
    def current(self) -> grpc.aio.Channel:
        """The channel of new calls."""
        return self._current

    async def renew(self, *, only_if_ready: bool = False) -> bool:
        """Replace the channel with a new one, and drain the old one; return whether that was done.

        Args:
            only_if_ready: Keep the present channel if the new one does not connect in time. Otherwise the new one
                replaces it in either case, as it must if the old credentials must not be used any more.
        """
        async with self._renewing:
            fresh = self._open()
            try:
                ready = await _wait_until_ready(fresh)
            except asyncio.CancelledError:
                await fresh.close(None)
                raise
            if only_if_ready and not ready:
                await fresh.close(None)
                return False
            before, self._current = self._current, fresh
            self._use(fresh)
            draining = asyncio.ensure_future(_drain(before))
            self._draining.add(draining)
            draining.add_done_callback(self._draining.discard)
            return True

    async def close(self) -> None:
        """Close all channels; calls in flight are cancelled."""
        draining = tuple(self._draining)
        for task in draining:
            task.cancel()
        await asyncio.gather(*draining, return_exceptions=True)
        await self._current.close(None)


async def _wait_until_ready(channel: grpc.aio.Channel) -> bool:
    """Wait until the channel is ready, within a time limit; return whether it is."""
    try:
        async with asyncio.timeout(_CONNECT_SECONDS):
            state = channel.get_state(try_to_connect=True)
            while state is not grpc.ChannelConnectivity.READY:
                await channel.wait_for_state_change(state)
                state = channel.get_state(try_to_connect=True)
    except TimeoutError:
        return False
    return True


async def _drain(channel: grpc.aio.Channel) -> None:
    try:
        await channel.close(DRAIN_SECONDS)
    except asyncio.CancelledError:
        await channel.close(None)
        raise


_DEFAULT_PORT = "443"
"""gRPC's default port."""
_HOST_AND_PORT = pattern(r"(\[[^]]+\]|[^:/\s]+)(:\d+)?")
_SCHEMES = frozenset({"dns", "google-c2p", "ipv4", "ipv6", "unix", "unix-abstract", "vsock", "xds"})
"""gRPC's schemes. It takes anything else for a name, which resolves to nothing."""


def grpc_target(addresses: Sequence[str]) -> str:
    """Return one gRPC target for addresses.

    A single address may be a name (``validator:9002``), which stands for all addresses that it resolves to, or a target
    in gRPC's own syntax (``dns:///…``, ``unix:…``, ``xds:///…``). Several must be IP addresses with ports.

    Raises:
        ConfigurationError: one of several addresses is not an IP address with a port, or a single one is no address.
    """
    if len(addresses) == 1:
        address = addresses[0]
        return address if _has_scheme(address) else f"dns:///{address}"
    plain = [address.replace("localhost:", "127.0.0.1:") for address in addresses]
    versions = {_ip_version(address) for address in plain}
    if versions in ({4}, {6}):
        return f"ipv{versions.pop()}:{','.join(plain)}"
    raise ConfigurationError(
        f"{', '.join(addresses)}: several addresses are IP addresses with ports, all IPv4 or all IPv6; "
        "or give one name that resolves to all of them"
    )


def replica_target(name_target: str, address: str) -> str:
    """Return the target of one address of the name in a target like ``dns:///validator:9002``."""
    _, colon, port = name_target.rpartition("/")[2].rpartition(":")
    port = port if colon and port.isdigit() else _DEFAULT_PORT
    return f"ipv6:[{address}]:{port}" if ":" in address else f"ipv4:{address}:{port}"


def fixed_targets(target: str) -> tuple[str, ...]:
    """Return a target for each address that a target contains; none if only gRPC can resolve it."""
    scheme, _, rest = target.partition(":")
    if scheme in ("ipv4", "ipv6"):
        return tuple(f"{scheme}:{address}" for address in rest.split(","))
    return (target,) if scheme in ("dns", "unix") else ()


def _has_scheme(address: str) -> bool:
    """Whether an address is in gRPC's own syntax.

    Raises:
        ConfigurationError: it is neither that nor a host, with or without a port.
    """
    scheme, _, rest = address.partition(":")
    if scheme in _SCHEMES and not rest.isdigit():
        return True
    if not _HOST_AND_PORT.fullmatch(address):
        raise ConfigurationError(
            f"{address}: not the address of a service: give HOST:PORT, or a target of gRPC such as dns:///HOST:PORT"
        )
    return False


def _ip_version(address: str) -> int | None:
    host, _, port = address.rpartition(":")
    try:
        parsed = ipaddress.ip_address(host.removeprefix("[").removesuffix("]"))
    except ValueError:
        return None
    return parsed.version if port.isdigit() else None


_log = logging.getLogger(__name__)

Resolve: TypeAlias = Callable[[str], Awaitable[frozenset[str]]]
"""Returns the addresses of a name; raises OSError if it has none."""

LOOKUP_SECONDS = 10.0
"""How often to resolve names. A new replica is to be found within 30 s, and a lookup may come too early for the cache
of the name server: CoreDNS caches answers for Services for 5 s. The third lookup is still in time."""

_DNS_TARGET = pattern(r"dns://[^/]*/(?P<host>\[[^]]+\]|[^:/]+)(?::\d+)?")


async def resolve_name(name: str) -> frozenset[str]:
    """Resolve a name with the system's resolver.

    Raises:
        OSError: the name has no addresses, or cannot be resolved.
    """
    found = await asyncio.get_running_loop().getaddrinfo(name, None, type=socket.SOCK_STREAM)
    return frozenset(str(address[0]) for _, _, _, _, address in found)


def watched_name(target: str) -> str:
    """Return the name in a gRPC target whose addresses may change; empty if there is none."""
    match = _DNS_TARGET.fullmatch(target)
    if match is None:
        return ""
    host = match["host"]
    try:
        ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        return host
    return ""


class NameWatch(msgspec.Struct, frozen=True):
    """Resolves a name periodically."""

    name: str
    renew: Callable[[], Awaitable[bool]]
    """Called when the name has a new address; returns whether it is used now."""
    resolve: Resolve = resolve_name
    seconds: float = LOOKUP_SECONDS

    async def run(self) -> None:
        """Resolve until cancelled."""
        known: frozenset[str] | None = None
        while True:
            found = await self._look()
            if found and (known is None or found <= known or await self._renew(len(found - known))):
                known = found
            await asyncio.sleep(self.seconds)

    async def _look(self) -> frozenset[str]:
        """Return the addresses; none if the name cannot be resolved, which says nothing about existing connections."""
        try:
            return await self.resolve(self.name)
        except OSError:
            return frozenset()

    async def _renew(self, count: int) -> bool:
        renewed = await self.renew()
        if renewed:
            _log.info("replicas found", extra={"address": self.name, "count": count})
        return renewed
