"""Handlers of gRPC methods: interceptors for limits, clients, deadlines and errors, parsing, and the inputs of a call.

Interceptors wrap a method's handler, outermost first: concurrency limit and client check (see
:mod:`pratique.rpc.servers`), then :data:`INTERCEPTORS`.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import uuid
from collections.abc import Awaitable, Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any, Generic, NamedTuple, TypeAlias, TypeVar

import grpc
from google.protobuf.message import DecodeError, Message
from grpc.aio import ServicerContext

from pratique.admission.reviews import Deadline
from pratique.admission.v1 import catalogue_service_pb2, catalogue_service_pb2_grpc, digest_pb2
from pratique.apimachinery.errors import InputError
from pratique.configuration.input_digests import InputDigests, RecentInputs
from pratique.https.tls import ClientCertificateAuthenticator
from pratique.telemetry.logs import describe_error

Context: TypeAlias = "grpc.aio.ServicerContext[Any, Any]"


OK = "OK"
CANCELED = "Canceled"
_GO_NAMES = {grpc.StatusCode.OK: OK, grpc.StatusCode.CANCELLED: CANCELED}

CODE_NAMES = MappingProxyType(
    {code: _GO_NAMES.get(code) or code.name.title().replace("_", "") for code in grpc.StatusCode}
)
"""The Go names of status codes, as gRPC's metrics have them."""
CODE_NAMES_BY_NUMBER = MappingProxyType({code.value[0]: name for code, name in CODE_NAMES.items()})
"""The same by number, because a server's context has the number."""


_MAX_MARGIN_SECONDS = 0.05
"""The time for the answer to travel back: a hundred times what it takes between idle processes."""


def controllers_deadline(context: ServicerContext[Any, Any]) -> Deadline | None:
    """Return the deadline for controllers that lets the answer, with the other outcomes, arrive in time.

    It is before the call's own deadline by a tenth of the remaining time, and by at most 50 ms. None if the call has no
    deadline.
    """
    remaining = context.time_remaining()
    if remaining is None:
        return None
    return Deadline.after(remaining - min(_MAX_MARGIN_SECONDS, remaining / 10))


_GRPC_ATTEMPTS_KEY = "grpc-previous-rpc-attempts"
"""Set by the caller's gRPC from the second attempt on:
https://github.com/grpc/proposal/blob/master/A6-client-retries.md#exposed-retry-metadata."""
ATTEMPTS_KEY = "pratique-previous-attempts"
"""Set by a caller that retries a call itself, for example after a broken stream; gRPC lets nobody set its own key."""
_ATTEMPTS_KEYS = frozenset({_GRPC_ATTEMPTS_KEY, ATTEMPTS_KEY})


def is_retry(context: ServicerContext[Any, Any]) -> bool:
    """Tell whether the same call was sent before and may have been carried out."""
    return any(key in _ATTEMPTS_KEYS for key, _ in context.invocation_metadata() or ())


BytesHandler: TypeAlias = Callable[[bytes, "Context"], Awaitable[bytes]]
"""Answers an encoded request with an encoded response."""
Interceptor: TypeAlias = Callable[[BytesHandler], BytesHandler]
"""Wraps a handler."""

_NO_RETRY_METADATA = (("grpc-retry-pushback-ms", "-1"),)
"""Tells the caller's gRPC not to retry: https://github.com/grpc/proposal/blob/master/A6-client-retries.md.
Retries would keep an overloaded service overloaded."""


class ConcurrencyLimit:
    """Limits the calls that one server handles concurrently.

    gRPC's own ``maximum_concurrent_rpcs`` rejects without that metadata, and it counts health watches.
    """

    def __init__(self, max_calls: int, max_bytes: int = 256 * 1024 * 1024) -> None:
        """Allow ``max_calls`` at a time, and requests of ``max_bytes`` in all.

        256 MiB: what the front doors hold, of which the chart has at most four.
        """
        self._max_calls, self._max_bytes = max_calls, max_bytes
        self._calls = self._bytes = 0

    def limit(self, handler: BytesHandler) -> BytesHandler:
        """Reject calls beyond the limit with RESOURCE_EXHAUSTED, before their requests are parsed."""

        async def limited(request: bytes, context: Context) -> bytes:
            size = len(request)
            if self._calls >= self._max_calls or self._bytes + size > self._max_bytes:
                await context.abort(
                    grpc.StatusCode.RESOURCE_EXHAUSTED, "too many calls are in flight", _NO_RETRY_METADATA
                )
            self._calls += 1
            self._bytes += size
            try:
                return await handler(request, context)
            finally:
                self._calls -= 1
                self._bytes -= size

        return limited


class MessageReceiver:
    """Receives the messages of unary calls, a few at a time: each may hold memory until it is complete.

    grpcio receives a message before it calls the handler of a unary method, for as many calls as there are. So handlers
    are registered for a stream of messages, which is the same on the wire, and ask for the one message themselves.
    Until then, the client may send no more of it than the window of the call.
    """

    def __init__(self, max_message_bytes: int) -> None:
        """Hold at most 64 MiB of messages of at most ``max_message_bytes``, or one."""
        self._room = asyncio.Semaphore(max(1, _RECEIVED_BYTES // max_message_bytes))

    async def message(self, context: Context) -> Any:
        """Return the message of a call; abort the call if it does not arrive in time, or has none."""
        try:
            async with asyncio.timeout(_RECEIVE_SECONDS), self._room:
                message = await context.read()
        except TimeoutError:
            details = f"the message of the call has not arrived within {_RECEIVE_SECONDS:g} seconds"
            await context.abort(grpc.StatusCode.DEADLINE_EXCEEDED, details)
        if message is grpc.aio.EOF:  # type: ignore[attr-defined]  # the stubs lack it
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, "the call has no message")
        return message

    def receive(self, handler: BytesHandler) -> BytesHandler:
        """Give a handler the message of its call; the caller has none yet."""

        async def received(_: bytes, context: Context) -> bytes:
            return await handler(await self.message(context), context)

        return received


_RECEIVED_BYTES = 64 * 1024 * 1024
"""64 MiB: what a front door holds of all bodies at a time by default."""
_RECEIVE_SECONDS = 10.0
"""How long a message may take, the wait for others included. 10: the front door's limit for bodies."""


def receiving_handler(method: grpc.RpcMethodHandler[Any, Any]) -> grpc.RpcMethodHandler[bytes, bytes]:
    """Return gRPC's handler of a unary method that receives its message itself."""
    handler: Any = method.unary_unary

    async def serve(_: object, context: Context) -> Any:
        return await handler(b"", context)

    return grpc.stream_unary_rpc_method_handler(serve)


def require_known_client(clients: ClientCertificateAuthenticator) -> Interceptor:
    """Return an interceptor that rejects unknown clients as UNAUTHENTICATED and others as PERMISSION_DENIED."""

    def intercept(handler: BytesHandler) -> BytesHandler:
        async def authenticated(request: bytes, context: Context) -> bytes:
            client = clients.authenticate(_client_certificates(context.auth_context()))
            if client is None:
                details = "the client's certificate has expired, or is not from a trusted authority"
                await context.abort(grpc.StatusCode.UNAUTHENTICATED, details)
            if not client.is_allowed:
                details = "no name in the client's certificate is allowed to call"
                await context.abort(grpc.StatusCode.PERMISSION_DENIED, details)
            return await handler(request, context)

        return authenticated

    return intercept


def intercepted(
    methods: Mapping[str, Any], interceptor: Interceptor
) -> dict[str, grpc.RpcMethodHandler[Any, Any]]:
    """Wrap every unary method with an interceptor, outside its other ones."""
    return {
        name: grpc.unary_unary_rpc_method_handler(
            interceptor(method.unary_unary), method.request_deserializer, method.response_serializer
        )
        for name, method in methods.items()
    }


def _client_certificates(authentication: Mapping[str, Iterable[bytes]]) -> tuple[bytes, ...]:
    """Return a connection's certificates in PEM, the client's own first; gRPC's chain does not contain it."""
    own = authentication.get("x509_pem_cert", ())
    return (*own, *authentication.get("x509_pem_cert_chain", ()))


_log = logging.getLogger(__name__)

RequestT = TypeVar("RequestT", bound=Message)


class IncomingRequest(NamedTuple, Generic[RequestT]):
    """A decoded request."""

    message: RequestT
    size_bytes: int
    """The encoded length. The message itself could tell it only by encoding itself again."""


RpcMethod: TypeAlias = "Callable[[IncomingRequest[RequestT], Context], Awaitable[Message]]"
"""Answers a request with a response."""

_MAX_DETAILS_CHARACTERS = 1024
"""The longest status text: gRPC replaces a status whose metadata exceed 8 KiB by RESOURCE_EXHAUSTED."""


def hide_errors(handler: BytesHandler) -> BytesHandler:
    """Answer an exception with INTERNAL and an id; gRPC would send the exception's text, and log it."""

    async def guarded(request: bytes, context: Context) -> bytes:
        try:
            return await handler(request, context)
        except grpc.aio.AbortError:
            raise
        except Exception as error:  # noqa: BLE001 - the outermost interceptor: it answers
            error_id = uuid.uuid4().hex
            _log.error("a call failed", extra={"error_id": error_id, "error": describe_error(error)})
            await context.abort(grpc.StatusCode.INTERNAL, f"internal error {error_id}")

    return guarded


def require_deadline(handler: BytesHandler) -> BytesHandler:
    """Reject calls without a deadline, which would wait for ever."""

    async def limited(request: bytes, context: Context) -> bytes:
        if context.time_remaining() is None:
            details = (
                "the call has no deadline: set one of at most 30 seconds, the longest that admission can take"
            )
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, details)
        return await handler(request, context)

    return limited


def report_bad_requests(handler: BytesHandler) -> BytesHandler:
    """Answer a request that breaks the contract with INVALID_ARGUMENT and the reason."""

    async def checked(request: bytes, context: Context) -> bytes:
        try:
            return await handler(request, context)
        except InputError as error:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error)[:_MAX_DETAILS_CHARACTERS])

    return checked


INTERCEPTORS: tuple[Interceptor, ...] = (
    hide_errors,
    require_deadline,
    report_bad_requests,
)
"""The interceptors of every method, outermost first."""


def unary_handler(
    request_type: type[RequestT], method: RpcMethod[RequestT]
) -> grpc.RpcMethodHandler[bytes, bytes]:
    """Return gRPC's handler of a unary method.

    Messages are decoded and encoded inside the interceptors, which therefore also handle failures there.
    """
    handler = _parse_and_call(request_type, method)
    for interceptor in reversed(INTERCEPTORS):
        handler = interceptor(handler)
    return grpc.unary_unary_rpc_method_handler(handler)


def _parse_and_call(request_type: type[RequestT], method: RpcMethod[RequestT]) -> BytesHandler:
    async def handler(request: bytes, context: Context) -> bytes:
        try:
            message = request_type.FromString(request)
        except DecodeError:
            raise InputError(f"the request is not a {request_type.DESCRIPTOR.full_name}") from None
        response = await method(IncomingRequest(message, len(request)), context)
        return response.SerializeToString()

    return handler


HostT = TypeVar("HostT")

NOT_HELD = grpc.StatusCode.FAILED_PRECONDITION
"""Ends a call whose inputs the service does not hold. The service has then done nothing."""
_MAX_HELD_INPUTS = 16
"""The most inputs that are accepted from a service. Pratique's own services hold at most 4."""
_MAX_DIGEST_CHARACTERS = 128
"""The longest digest that is accepted. Pratique's own have 32 characters."""
_NOT_HELD_DETAILS = (
    "this service does not have the inputs that the call names: give every service the same --config, --cluster, "
    "chain flags and --admission-control-config-file"
)


def inputs_to_messages(held: RecentInputs[Any]) -> list[digest_pb2.Inputs]:
    """Encode the inputs that a service holds, the current ones first."""
    return [
        digest_pb2.Inputs(
            digest=digests.whole,
            chain=digests.chain,
            configuration=digests.configuration,
            cluster=digests.cluster,
        )
        for digests, _ in held
    ]


def inputs_from_messages(held: Iterable[digest_pb2.Inputs]) -> tuple[InputDigests, ...]:
    """Decode the inputs that a service says it holds; ignore more than a service would hold, and overlong digests."""
    decoded = (
        InputDigests(inputs.digest, inputs.chain, inputs.configuration, inputs.cluster)
        for inputs in itertools.islice(held, _MAX_HELD_INPUTS)
    )
    return tuple(
        digests for digests in decoded if all(len(digest) <= _MAX_DIGEST_CHARACTERS for digest in digests)
    )


async def fetch_inputs(channel: grpc.aio.Channel, seconds: float) -> tuple[InputDigests, ...]:
    """Fetch the inputs that a service holds; empty if it does not report them.

    Raises:
        AioRpcError: the service does not answer within ``seconds``, or has no catalogue.
    """
    catalogue = catalogue_service_pb2_grpc.CatalogueServiceStub(channel)
    response = await catalogue.Describe(catalogue_service_pb2.DescribeRequest(), timeout=seconds)
    return inputs_from_messages(response.held)


async def held_or_abort(held: RecentInputs[HostT], digest: str, context: Context) -> tuple[str, HostT]:
    """Return the digest of the inputs to use, and their host; an empty ``digest`` means the current inputs.

    Raises:
        AbortError: the service does not hold the inputs; the call has ended.
    """
    found = held.find(digest)
    if found is None:
        held.mismatches += 1
        await context.abort(NOT_HELD, _NOT_HELD_DETAILS)
    digests, host = found
    return digests.whole, host
