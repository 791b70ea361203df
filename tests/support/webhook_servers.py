"""Webhook servers: real HTTPS servers on loopback that behave as told, and remember what they were asked.

::

    with serve(allowed()) as server:
        ...  # server.url, server.ca_bundle, server.received

    with serve({"/mutate": patched([...]), "/validate": denied("no")}) as server:
        ...

A server runs on an event loop of its own in a thread, so that any kind of test can call it.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import dataclasses
import datetime as dt
import functools
import gzip
import ipaddress
import json
import socket
import ssl
import struct
import threading
from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import Any, TypeAlias

import trustme
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

JSON: TypeAlias = Any

NAMES = ("localhost", "127.0.0.1", "webhooks.tests.svc")
"""The default names of a server's certificate."""


@dataclasses.dataclass(frozen=True, slots=True)
class Received:
    """One request that a server received."""

    method: str
    target: str
    """Path and query."""
    headers: Mapping[str, str]
    """By name in small letters."""
    body: bytes
    certificate: JSON
    """The client's certificate as ``SSLSocket.getpeercert`` shows it; None where it showed none."""

    @property
    def path(self) -> str:
        """The path without the query."""
        return self.target.partition("?")[0]

    @property
    def review(self) -> JSON:
        """The AdmissionReview in the body."""
        return json.loads(self.body)


Behaviour: TypeAlias = Callable[[Received, asyncio.StreamWriter], Awaitable[None]]
"""Answers one request, in whatever way."""


class Authority:
    """A certificate authority."""

    def __init__(self) -> None:
        """Make a new one, which nobody trusts yet."""
        self._ca = trustme.CA()

    @property
    def pem(self) -> bytes:
        """Its certificate."""
        return self._ca.cert_pem.bytes()

    def issue(self, *names: str, expired: bool = False) -> trustme.LeafCert:
        """Issue a certificate for ``names``."""
        if not expired:
            return self._ca.issue_cert(*names)
        start = dt.datetime(2019, 1, 1, tzinfo=dt.UTC)
        return self._ca.issue_cert(*names, not_before=start, not_after=start + dt.timedelta(days=365))

    def issue_by_common_name(self, name: str, *others: x509.GeneralName) -> trustme.LeafCert:
        """Issue a certificate whose common name alone is ``name``; ``others`` are its alternative names, if any."""
        issuer = x509.load_pem_x509_certificate(self.pem)
        signing = serialization.load_pem_private_key(self._ca.private_key_pem.bytes(), None)
        assert isinstance(signing, ec.EllipticCurvePrivateKey)
        own = ec.generate_private_key(ec.SECP256R1())
        builder = (
            x509.CertificateBuilder(
                issuer.subject, x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
            )
            .public_key(own.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(dt.datetime(2020, 1, 1, tzinfo=dt.UTC))
            .not_valid_after(dt.datetime(3000, 1, 1, tzinfo=dt.UTC))
        )
        if others:
            builder = builder.add_extension(x509.SubjectAlternativeName(others), critical=False)
        key = own.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        signed = builder.sign(signing, hashes.SHA256())
        return trustme.LeafCert(key, signed.public_bytes(serialization.Encoding.PEM), [])


COMMON_NAMES: Mapping[str, tuple[x509.GeneralName, ...]] = {
    "no alternative name": (),
    "a URI alone": (x509.UniformResourceIdentifier("spiffe://example.com/hook"),),
    "a mail address alone": (x509.RFC822Name("hook@example.com"),),
    "another DNS name": (x509.DNSName("a.example.com"),),
    "an address alone": (x509.IPAddress(ipaddress.ip_address("192.0.2.1")),),
}
"""What a certificate may say of itself beside a common name, none of which is the name that it is asked by."""


@functools.cache
def authority() -> Authority:
    """The authority of all servers that are not told otherwise. Made once: keys take a while."""
    return Authority()


@functools.cache
def _usual_certificate() -> trustme.LeafCert:
    return authority().issue(*NAMES)


class WebhookServer:
    """A server that runs; see :func:`serve`."""

    def __init__(self, behaviours: Mapping[str, Behaviour], context: ssl.SSLContext | None) -> None:
        """Use :func:`serve`."""
        self.received: list[Received] = []
        """Every request, in order."""
        self.connections = 0
        """How many connections were made, TLS included."""
        self.port = 0
        """Where it listens."""
        self._behaviours = behaviours
        self._context = context
        self._conversations: set[asyncio.Task[None] | None] = set()
        self._started = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: asyncio.Event | None = None

    @property
    def url(self) -> str:
        """Its URL, without a path."""
        return f"https://localhost:{self.port}"

    @property
    def ca_bundle(self) -> bytes:
        """The certificate of the authority that all servers have if they are not told otherwise."""
        return authority().pem

    def run(self) -> None:
        """Serve until :meth:`stop`."""
        asyncio.run(self._serve())

    def wait_until_started(self) -> None:
        """Wait until it listens."""
        assert self._started.wait(120)

    def stop(self) -> None:
        """End it, and all that it has not answered."""
        assert self._loop is not None
        assert self._stop is not None
        self._loop.call_soon_threadsafe(self._stop.set)

    async def _serve(self) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        server = await asyncio.start_server(self._converse, "127.0.0.1", 0, ssl=self._context)
        self.port = server.sockets[0].getsockname()[1]
        self._started.set()
        await self._stop.wait()
        server.close()

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        # An event loop holds tasks weakly, and nothing else holds one that hangs.
        conversation = asyncio.current_task()
        self._conversations.add(conversation)
        try:
            await self._answer_all(reader, writer)
        except (OSError, asyncio.IncompleteReadError, _HangUpError):
            pass
        except asyncio.CancelledError:
            writer.transport.abort()
        finally:
            writer.close()
            self._conversations.discard(conversation)

    async def _answer_all(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._context is None:
            await reader.read(1)
            _write(writer, 400, b"400 Bad Request: malformed HTTP request", "text/plain")
            return
        while True:
            received = await _read_request(reader, writer)
            self.received.append(received)
            behave = self._behaviours.get(received.path) or self._behaviours[""]
            await behave(received, writer)
            await writer.drain()


@contextlib.contextmanager
def serve(
    behaviour: Behaviour | Mapping[str, Behaviour],
    *,
    certificate: trustme.LeafCert | None = None,
    plain: bool = False,
    clients: Authority | None = None,
) -> Iterator[WebhookServer]:
    """Run a server that behaves in one way, or in one for each path.

    ``certificate`` is what it shows, for ``NAMES`` by :func:`authority` if not given. ``plain`` makes it speak HTTP
    without TLS, so that it takes a TLS client's first words for a bad request. ``clients`` makes it refuse clients
    that show no certificate of that authority.
    """
    context = None if plain else _context(certificate or _usual_certificate(), clients)
    behaviours = behaviour if isinstance(behaviour, Mapping) else {"": behaviour}
    server = WebhookServer({"": respond(404, b"404 page not found"), **behaviours}, context)
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        server.wait_until_started()
        yield server
    finally:
        server.stop()
        thread.join(120)


def _context(certificate: trustme.LeafCert, clients: Authority | None) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    certificate.configure_cert(context)
    if clients is not None:
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(cadata=clients.pem.decode())
    return context


@contextlib.contextmanager
def closed_port() -> Iterator[int]:
    """A port of 127.0.0.1 where nobody listens."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield bound.getsockname()[1]


async def _read_request(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> Received:
    head = await reader.readuntil(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")
    method, target, _ = first.split(" ")
    headers = {
        name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines if line)
    }
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    return Received(method, target, headers, body, writer.get_extra_info("peercert") or None)


# What a server may do with a request.


def respond(
    status: int,
    body: bytes = b"",
    *,
    content_type: str | None = "text/plain",
    headers: Mapping[str, str] | None = None,
) -> Behaviour:
    """Answer with a status and a body."""

    async def behave(_: Received, writer: asyncio.StreamWriter) -> None:
        _write(writer, status, body, content_type, headers)

    return behave


def _write(
    writer: asyncio.StreamWriter,
    status: int,
    body: bytes,
    content_type: str | None = "application/json",
    headers: Mapping[str, str] | None = None,
) -> None:
    every = {"Content-Length": str(len(body)), **(headers or {})}
    if content_type is not None:
        every["Content-Type"] = content_type
    if status == 204:
        del every["Content-Length"]
    lines = "".join(f"{name}: {value}\r\n" for name, value in every.items())
    writer.write(f"HTTP/1.1 {status} Status\r\n{lines}\r\n".encode("latin-1") + body)


def answered(answer: Callable[[Received], JSON], *, compressed: bool = False) -> Behaviour:
    """Answer with JSON that depends on the request."""

    async def behave(received: Received, writer: asyncio.StreamWriter) -> None:
        body = json.dumps(answer(received)).encode()
        if compressed:
            _write(writer, 200, gzip.compress(body), headers={"Content-Encoding": "gzip"})
        else:
            _write(writer, 200, body)

    return behave


def reviewed(*, compressed: bool = False, **response: JSON) -> Behaviour:
    """Answer with an AdmissionReview in the version received, with its uid and the members of ``response``."""

    def answer(received: Received) -> JSON:
        review = received.review
        return {
            "apiVersion": review["apiVersion"],
            "kind": "AdmissionReview",
            "response": {"uid": review["request"]["uid"], **response},
        }

    return answered(answer, compressed=compressed)


def allowed(**response: JSON) -> Behaviour:
    """Let the request through."""
    return reviewed(allowed=True, **response)


def denied(message: str = "", **response: JSON) -> Behaviour:
    """Refuse the request, with a Status that holds a message."""
    if message:
        response["status"] = {"message": message}
    return reviewed(allowed=False, **response)


def patched(operations: JSON, **response: JSON) -> Behaviour:
    """Let the request through with a JSON Patch."""
    patch = base64.b64encode(json.dumps(operations).encode()).decode()
    return reviewed(allowed=True, patchType="JSONPatch", patch=patch, **response)


def in_turn(*behaviours: Behaviour) -> Behaviour:
    """Behave in another way each time; in the last one from then on."""
    left = list(behaviours)

    async def behave(received: Received, writer: asyncio.StreamWriter) -> None:
        await (left.pop(0) if len(left) > 1 else left[0])(received, writer)

    return behave


def redirected(location: str, status: int = 307) -> Behaviour:
    """Send the caller elsewhere."""
    return respond(status, headers={"Location": location})


def hanging() -> Behaviour:
    """Never answer."""

    async def behave(_: Received, _writer: asyncio.StreamWriter) -> None:
        await asyncio.Event().wait()

    return behave


def hanging_body() -> Behaviour:
    """Begin an answer, and never end it."""

    async def behave(_: Received, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n{")
        await writer.drain()
        await asyncio.Event().wait()

    return behave


def raw(*pieces: bytes) -> Behaviour:
    """Write bytes, and close the connection."""

    async def behave(_: Received, writer: asyncio.StreamWriter) -> None:
        for piece in pieces:
            writer.write(piece)
            await writer.drain()
        raise _HangUpError

    return behave


def reset() -> Behaviour:
    """Break the connection off."""

    async def behave(_: Received, writer: asyncio.StreamWriter) -> None:
        connection: socket.socket = writer.get_extra_info("socket")
        # Closed with no time to linger, a socket sends a reset.
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        writer.transport.abort()
        raise _HangUpError

    return behave


class _HangUpError(Exception):
    """Ends a connection."""
