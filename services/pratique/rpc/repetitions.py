"""Calls that gRPC makes again because the service that was asked first broke off."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from grpc.aio import ServicerContext

_ATTEMPTS = "grpc-previous-rpc-attempts"
"""Set by the caller's gRPC from the second attempt on:
https://github.com/grpc/proposal/blob/master/A6-client-retries.md#exposed-retry-metadata."""


def is_repeated(context: ServicerContext[Any, Any]) -> bool:
    """Tell whether the same call was made before, and may have been carried out."""
    return any(key == _ATTEMPTS for key, _ in context.invocation_metadata() or ())
