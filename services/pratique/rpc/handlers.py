"""Between gRPC and a method: limits, known clients, deadlines, parsing, errors, and the inputs that a call names."""

from __future__ import annotations

import itertools
import logging
import uuid
from collections.abc import Awaitable, Callable, Iterable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeAlias, TypeVar

import grpc
from google.protobuf.message import DecodeError, Message

from pratique.admission.reviews import Deadline
from pratique.admission.v1 import catalogue_service_pb2, catalogue_service_pb2_grpc, digest_pb2
from pratique.apimachinery.errors import InputError
from pratique.configuration.input_digests import InputDigests, RecentInputs
from pratique.https.tls import ClientCertificateAuthenticator
from pratique.telemetry.logs import describe_error

if TYPE_CHECKING:
    from grpc.aio import ServicerContext


Context: TypeAlias = "grpc.aio.ServicerContext[Any, Any]"


OK = "OK"
CANCELED = "Canceled"
_GO_NAMES = {grpc.StatusCode.OK: OK, grpc.StatusCode.CANCELLED: CANCELED}

CODE_NAMES = MappingProxyType(
    {code: _GO_NAMES.get(code) or code.name.title().replace("_", "") for code in grpc.StatusCode}
)
"""By code."""
CODE_NAMES_BY_NUMBER = MappingProxyType({code.value[0]: name for code, name in CODE_NAMES.items()})
"""By its number, as a server's context has it."""


_MAX_MARGIN_SECONDS = 0.05
"""What an answer may take on its way back: a hundred times what it takes between idle processes."""


def controllers_deadline(context: ServicerContext[Any, Any]) -> Deadline | None:
    """When controllers must be done so that the answer, with what the others decided, is back in time.

    That is before the call's own deadline by a tenth of what is left, or by the margin where that is less.
    None where the call has no deadline.
    """
    remaining = context.time_remaining()
    if remaining is None:
        return None
    return Deadline.after(remaining - min(_MAX_MARGIN_SECONDS, remaining / 10))


_GRPC_ATTEMPTS_KEY = "grpc-previous-rpc-attempts"
"""Set by the caller's gRPC from the second attempt on:
https://github.com/grpc/proposal/blob/master/A6-client-retries.md#exposed-retry-metadata."""
ATTEMPTS_KEY = "pratique-previous-attempts"
"""Set by a caller that makes a call again by itself, as after a stream that broke; gRPC lets nobody set its own."""
_ATTEMPTS_KEYS = frozenset({_GRPC_ATTEMPTS_KEY, ATTEMPTS_KEY})


def is_retry(context: ServicerContext[Any, Any]) -> bool:
    """Tell whether the same call was made before, and may have been carried out."""
    return any(key in _ATTEMPTS_KEYS for key, _ in context.invocation_metadata() or ())


_NO_RETRY_METADATA = (("grpc-retry-pushback-ms", "-1"),)
"""Whoever would try again by a retry policy does not: https://github.com/grpc/proposal/blob/master/A6-client-retries.md.
Retries are what keeps an overloaded service overloaded."""


class ConcurrencyLimit:
    """The calls that one server is answering.

    gRPC's own ``maximum_concurrent_rpcs`` refuses without that request, and counts watches of health.
    """

    def __init__(self, most_calls: int) -> None:
        """Let so many calls in."""
        self._most_calls = most_calls
        self._calls = 0

    def limiting(self, handler: BytesHandler) -> BytesHandler:
        """Refuse with RESOURCE_EXHAUSTED, at once and before the request is parsed, what comes beyond the limit."""

        async def ring(request: bytes, context: Context) -> bytes:
            if self._calls >= self._most_calls:
                await context.abort(
                    grpc.StatusCode.RESOURCE_EXHAUSTED, "too many calls are in flight", _NO_RETRY_METADATA
                )
            self._calls += 1
            try:
                return await handler(request, context)
            finally:
                self._calls -= 1

        return ring


def require_known_client(clients: ClientCertificateAuthenticator) -> Interceptor:
    """Make the ring that refuses whoever is not known, with UNAUTHENTICATED, or not wanted, with PERMISSION_DENIED."""

    def ring_of(handler: BytesHandler) -> BytesHandler:
        async def ring(request: bytes, context: Context) -> bytes:
            client = clients.authenticate(_client_certificates(context.auth_context()))
            if client is None:
                words = "the client's certificate is not of an authority that is trusted now, or has ended"
                await context.abort(grpc.StatusCode.UNAUTHENTICATED, words)
            if not client.is_allowed:
                words = "the client's certificate has no name that may call"
                await context.abort(grpc.StatusCode.PERMISSION_DENIED, words)
            return await handler(request, context)

        return ring

    return ring_of


def intercepted(methods: Mapping[str, Any], ring: Interceptor) -> dict[str, grpc.RpcMethodHandler[Any, Any]]:
    """Put ``ring`` round every unary method, outside all that is round it already."""
    return {
        name: grpc.unary_unary_rpc_method_handler(
            ring(method.unary_unary), method.request_deserializer, method.response_serializer
        )
        for name, method in methods.items()
    }


def _client_certificates(authentication: Mapping[str, Iterable[bytes]]) -> tuple[bytes, ...]:
    """The certificates of a connection in PEM, the client's own first; those between come without it."""
    own = authentication.get("x509_pem_cert", ())
    return (*own, *authentication.get("x509_pem_cert_chain", ()))


_log = logging.getLogger(__name__)

RequestT = TypeVar("RequestT", bound=Message)

BytesHandler: TypeAlias = Callable[[bytes, "Context"], Awaitable[bytes]]
"""Answers a message with a message, both as bytes."""
Interceptor: TypeAlias = Callable[[BytesHandler], BytesHandler]
"""Something round a handler."""


class IncomingRequest(NamedTuple, Generic[RequestT]):
    """A request that came in."""

    message: RequestT
    size_bytes: int
    """How long it was. To ask a message for that would write it once more."""


RpcMethod: TypeAlias = "Callable[[IncomingRequest[RequestT], Context], Awaitable[Message]]"
"""What a servicer does: answers a request."""

_MAX_DETAILS_CHARACTERS = 1024
"""Characters of a status text: gRPC replaces a status whose metadata pass 8 KiB by RESOURCE_EXHAUSTED."""


def hide_errors(handler: BytesHandler) -> BytesHandler:
    """Answer a failure with INTERNAL and an id; gRPC would send the error's text, and log it."""

    async def ring(request: bytes, context: Context) -> bytes:
        try:
            return await handler(request, context)
        except grpc.aio.AbortError:
            raise
        except Exception as error:  # noqa: BLE001 - the outermost ring: it answers
            error_id = uuid.uuid4().hex
            _log.error("a call failed", extra={"error_id": error_id, "error": describe_error(error)})
            await context.abort(grpc.StatusCode.INTERNAL, f"internal error {error_id}")

    return ring


def require_deadline(handler: BytesHandler) -> BytesHandler:
    """Refuse calls that would wait for ever."""

    async def ring(request: bytes, context: Context) -> bytes:
        if context.time_remaining() is None:
            words = "the call has no deadline: set one, at most 30 seconds ahead, as admission has no longer"
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, words)
        return await handler(request, context)

    return ring


def report_bad_requests(handler: BytesHandler) -> BytesHandler:
    """Answer a request that breaks the contract with INVALID_ARGUMENT and what is wrong with it."""

    async def ring(request: bytes, context: Context) -> bytes:
        try:
            return await handler(request, context)
        except InputError as error:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error)[:_MAX_DETAILS_CHARACTERS])

    return ring


INTERCEPTORS: tuple[Interceptor, ...] = (
    hide_errors,
    require_deadline,
    report_bad_requests,
)
"""What stands round every method, the outermost first."""


def unary_handler(
    request_type: type[RequestT], method: RpcMethod[RequestT]
) -> grpc.RpcMethodHandler[bytes, bytes]:
    """Make a method callable. Messages are parsed and written inside the rings: these see every failure."""
    handler = _parse_and_call(request_type, method)
    for ring in reversed(INTERCEPTORS):
        handler = ring(handler)
    return grpc.unary_unary_rpc_method_handler(handler)


def _parse_and_call(request_type: type[RequestT], method: RpcMethod[RequestT]) -> BytesHandler:
    async def handler(request: bytes, context: Context) -> bytes:
        try:
            parsed = request_type.FromString(request)
        except DecodeError:
            raise InputError(f"the request is not a {request_type.DESCRIPTOR.full_name}") from None
        response = await method(IncomingRequest(parsed, len(request)), context)
        return response.SerializeToString()

    return handler


HostT = TypeVar("HostT")

NOT_HELD = grpc.StatusCode.FAILED_PRECONDITION
"""How a call ends that is to be decided by what the service does not hold; nothing has been done then."""
_MAX_HELD_INPUTS = 16
"""Sets of inputs that a service is believed to hold. Services of this suite hold 4 at most."""
_MAX_DIGEST_CHARACTERS = 128
"""Of a digest. Those of this suite have 32."""
_NOT_HELD_DETAILS = (
    "this service does not decide by the inputs that the call names: give every service the same --config, --cluster, "
    "chain flags and --admission-control-config-file"
)


def inputs_to_messages(held: RecentInputs[Any]) -> list[digest_pb2.Inputs]:
    """Write what a service holds, what it decides by now first."""
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
    """Read what a service says that it holds, and no more of it than one would hold."""
    read = (
        InputDigests(one.digest, one.chain, one.configuration, one.cluster)
        for one in itertools.islice(held, _MAX_HELD_INPUTS)
    )
    return tuple(one for one in read if all(len(each) <= _MAX_DIGEST_CHARACTERS for each in one))


async def fetch_inputs(channel: grpc.aio.Channel, seconds: float) -> tuple[InputDigests, ...]:
    """Ask a service what it holds; nothing where it does not say.

    Raises:
        AioRpcError: it does not answer, or has no catalogue.
    """
    catalogue = catalogue_service_pb2_grpc.CatalogueServiceStub(channel)
    described = await catalogue.Describe(catalogue_service_pb2.DescribeRequest(), timeout=seconds)
    return inputs_from_messages(described.held)


async def held_or_abort(held: RecentInputs[HostT], digest: str, context: Context) -> tuple[str, HostT]:
    """What was made of the inputs of a digest, and the digest; of the present ones where the caller leaves it open.

    Raises:
        AbortError: they are not held; the call has ended.
    """
    found = held.find(digest)
    if found is None:
        held.mismatches += 1
        await context.abort(NOT_HELD, _NOT_HELD_DETAILS)
    digests, made = found
    return digests.whole, made
