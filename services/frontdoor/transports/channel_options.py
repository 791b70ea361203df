"""How channels to services behave: balance, retries, time-outs of connections, sizes.

Service config: https://github.com/grpc/grpc/blob/master/doc/service_config.md. Channel arguments:
``include/grpc/impl/channel_arg_names.h`` there.
"""

from __future__ import annotations

import json
from typing import TypeAlias

from frontdoor.transports.retry_budgets import MOST_ATTEMPTS, MOST_TOKENS, TOKEN_RATIO

Options: TypeAlias = tuple[tuple[str, int | str], ...]

_MESSAGE_LIMIT = 16 * 1024 * 1024
"""Both ways. A legal review holds two objects of 3 MiB; gRPC's own limit of 4 MiB would refuse it."""

_RETRIED_BYTES = 2 * _MESSAGE_LIMIT
"""gRPC counts the metadata and its own structures as well."""

_BALANCED: dict[str, object] = {
    "loadBalancingConfig": [{"round_robin": {}}],
    "methodConfig": [
        {
            "name": [
                {"service": "pratique.admission.v1.MutatorService"},
                {"service": "pratique.admission.v1.ValidatorService"},
            ],
            # Both calls are pure by contract, so that a call whose replica died is safe to repeat on another; gRPC
            # tells the one that charges that it repeats.
            "retryPolicy": {
                "maxAttempts": MOST_ATTEMPTS,
                "initialBackoff": "0.02s",
                "maxBackoff": "0.2s",
                "backoffMultiplier": 3,
                "retryableStatusCodes": ["UNAVAILABLE"],
            },
        }
    ],
    "retryThrottling": {"maxTokens": MOST_TOKENS, "tokenRatio": TOKEN_RATIO},
}

_HEALTH_CHECKED = _BALANCED | {"healthCheckConfig": {"serviceName": ""}}
"""A replica that drains says NOT_SERVING before it stops, and gets no more calls from then on."""

_COMMON: Options = (
    ("grpc.max_send_message_length", _MESSAGE_LIMIT),
    ("grpc.max_receive_message_length", _MESSAGE_LIMIT),
    # What is longer than this is not made again. gRPC's 256 KiB would leave out every review of a large object.
    ("grpc.per_rpc_retry_buffer_size", _RETRIED_BYTES),
    # 100 ms to 2 s: a replica that comes back is to be found within a review's time, not within gRPC's two minutes.
    ("grpc.initial_reconnect_backoff_ms", 100),
    # How long an attempt to connect may take, whatever gRPC calls it: TLS from one continent to the next is 1 s.
    ("grpc.min_reconnect_backoff_ms", 5000),
    ("grpc.max_reconnect_backoff_ms", 2000),
    # A channel of its own for each transport, so that closing one does not share a broken subchannel.
    ("grpc.use_local_subchannel_pool", 1),
)

_OURS: Options = (
    # A replica that is frozen, or behind a network that swallows everything, is noticed 7 s after its last sign of
    # life, and the calls that it holds are made again on another: within the 10 s that a review has by default.
    ("grpc.keepalive_time_ms", 4_000),
    ("grpc.keepalive_timeout_ms", 3_000),
    # gRPC's default of 60 s is for the pings by which it measures, and a frozen replica may owe such a one.
    ("grpc.http2.ping_timeout_ms", 3_000),
    # Its default of 2 would make the third ping wait for a minute where no call is made meanwhile.
    ("grpc.http2.max_pings_without_data", 0),
)

_SOMEBODYS: Options = (
    # Servers with gRPC's default send clients away that ping three times while a call waits; none waits for longer
    # than 30 s.
    ("grpc.keepalive_time_ms", 30_000),
    ("grpc.keepalive_timeout_ms", 5_000),
)


def channel_options(*, ours: bool, server_name: str = "", retries: bool = True) -> Options:
    """The options of a channel to services of this suite, which answer for their health, or to somebody else's.

    ``server_name`` is the name that is looked for in their certificates, where it is not that of the target. Without
    ``retries`` whoever makes the calls makes them again.
    """
    config = json.dumps(_HEALTH_CHECKED if ours else _BALANCED)
    named: Options = (("grpc.ssl_target_name_override", server_name),) if server_name else ()
    retried = ("grpc.enable_retries", int(retries))
    return (*_COMMON, retried, *(_OURS if ours else _SOMEBODYS), *named, ("grpc.service_config", config))
