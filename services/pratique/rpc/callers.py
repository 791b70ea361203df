"""Callers: who may call a service, by the certificate that it has shown."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import grpc

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pratique.rpc.handlers import Context, Handler, Ring
    from pratique.tls.clients import ClientCertificates


def knowing_callers(clients: ClientCertificates) -> Ring:
    """Make the ring that refuses whoever is not known, with UNAUTHENTICATED, or not wanted, with PERMISSION_DENIED."""

    def ring_of(handler: Handler) -> Handler:
        async def ring(request: bytes, context: Context) -> bytes:
            client = clients.client(_shown(context.auth_context()))
            if client is None:
                words = "the client's certificate is not of an authority that is trusted now, or has ended"
                await context.abort(grpc.StatusCode.UNAUTHENTICATED, words)
            if not client.is_allowed:
                words = "the client's certificate has no name that may call"
                await context.abort(grpc.StatusCode.PERMISSION_DENIED, words)
            return await handler(request, context)

        return ring

    return ring_of


def guarded(methods: Mapping[str, Any], ring: Ring) -> dict[str, grpc.RpcMethodHandler[Any, Any]]:
    """Put ``ring`` round every unary method, outside all that is round it already."""
    return {
        name: grpc.unary_unary_rpc_method_handler(
            ring(method.unary_unary), method.request_deserializer, method.response_serializer
        )
        for name, method in methods.items()
    }


def _shown(authentication: Mapping[str, Iterable[bytes]]) -> tuple[bytes, ...]:
    """The certificates of a connection in PEM, the client's own first; those between come without it."""
    own = authentication.get("x509_pem_cert", ())
    return (*own, *authentication.get("x509_pem_cert_chain", ()))
