"""Calls that are made again because the service that was asked first broke off."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from grpc.aio import ServicerContext

_BY_GRPC = "grpc-previous-rpc-attempts"
"""Set by the caller's gRPC from the second attempt on:
https://github.com/grpc/proposal/blob/master/A6-client-retries.md#exposed-retry-metadata."""
ATTEMPTS = "pratique-previous-attempts"
"""Set by a caller that makes a call again by itself, as after a stream that broke; gRPC lets nobody set its own."""
_EITHER = frozenset({_BY_GRPC, ATTEMPTS})


def is_repeated(context: ServicerContext[Any, Any]) -> bool:
    """Tell whether the same call was made before, and may have been carried out."""
    return any(key in _EITHER for key, _ in context.invocation_metadata() or ())
