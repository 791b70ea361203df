"""The settings of the front door."""

from __future__ import annotations

import dataclasses
import enum
from pathlib import Path
from typing import NamedTuple

from pratique.configuration.settings import ChainSettings, OnOff


class CallKind(enum.StrEnum):
    """How calls to the services of this suite are made. Calls to webhooks are always unary."""

    STREAM = "stream"
    """On a stream to each replica, with many calls in flight; unary if a service has no streams."""
    UNARY = "unary"
    """Unary, balanced and retried by gRPC."""


class FanOutLimit(NamedTuple):
    """Into how many shares the validating work of a review may be divided."""

    shares: int | None
    """The most shares, which are made whatever the work costs; None divides where that shortens the review."""

    def __str__(self) -> str:
        """As the flag is written."""
        return {None: "auto", 1: "off"}.get(self.shares, str(self.shares))


AUTO_FAN_OUT = FanOutLimit(None)


class HedgeDelay(NamedTuple):
    """After which time a call to a validator is also made on another replica."""

    seconds: float | None
    """The time; None means as long as 95 of 100 calls take, and 0 never."""

    def __str__(self) -> str:
        """As the flag is written."""
        return {None: "p95", 0.0: "off"}.get(self.seconds) or f"{1000 * (self.seconds or 0):g}ms"


NEVER_HEDGED = HedgeDelay(0.0)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class FrontDoorSettings:
    """Where the front door listens, which services it calls, and its limits."""

    chain: ChainSettings = dataclasses.field(default_factory=ChainSettings)
    """The chain's controllers, configuration and cluster."""

    host: str = "127.0.0.1"
    """The address to listen on."""
    port: int = 8080
    """The port to listen on; 0 picks a free one."""
    tls_cert_file: Path | None = None
    """The certificate chain in PEM, own certificate first. With it and the key, HTTPS is served instead of HTTP."""
    tls_private_key_file: Path | None = None
    """The certificate's private key in PEM. Both files are reloaded when they change."""
    tls_min_version: str = "VersionTLS12"
    """The oldest accepted version of TLS, by Go's name: ``VersionTLS12`` or ``VersionTLS13``."""
    tls_cipher_suites: tuple[str, ...] = ()
    """Cipher suites of TLS 1.2, by Go's names; empty uses OpenSSL's default."""

    client_ca_file: Path | None = None
    """Certificates of authorities, in PEM: callers with a certificate of one of them are accepted. Reloaded when it
    changes."""
    client_allowed_names: tuple[str, ...] = ()
    """Names of accepted client certificates: a common name, DNS name or URI of the certificate must be one of these.
    Empty accepts all certificates of the authorities."""
    token_file: Path | None = None
    """Bearer tokens, one per line: callers with one of them are accepted. Reloaded when it changes."""
    basic_auth_file: Path | None = None
    """Users and passwords, ``user:password`` per line: callers with one of them are accepted. Reloaded when it
    changes."""

    mutator: str = "127.0.0.1:9001"
    """The gRPC target of the mutator, for example ``dns:///mutator:9443``."""
    validators: tuple[str, ...] = ("127.0.0.1:9002",)
    """The gRPC targets of the validators; calls are balanced over all addresses that they resolve to."""

    services_ca_file: Path | None = None
    """Authorities of the services' certificates, in PEM; with it, services are called over TLS. Reloaded when it
    changes, as are the next two."""
    services_cert_file: Path | None = None
    """The front door's client certificate for the services, in PEM."""
    services_private_key_file: Path | None = None
    """Its private key in PEM."""
    checks_key_file: Path | None = None
    """A file with a key that only the front doors and their services have. With it, or with a client certificate for
    the services, the front door proves to them what it has checked of a review, so that they need not do it again."""
    mutator_server_name: str = ""
    """The name that the mutator's certificate must have; empty means the name in its target."""
    validator_server_name: str = ""
    """The name that the validators' certificates must have."""
    calls: CallKind = CallKind.STREAM
    """How the mutator and the validators are called."""
    slow_replica_seconds: float = 10.0
    """How long a replica that is much slower than the others is excluded the first time; each slow trial doubles it,
    up to 8 times. 0 excludes none. 10: the default of ``timeoutSeconds``, so that in twice that time at most one
    review waits for such a replica."""

    mutator_timeout_seconds: float | None = None
    """The time limit of each call to the mutator; None means the review's, and a call that is late after 1 s is made
    again on another replica if there is one."""
    validator_timeout_seconds: float | None = None
    """The same for each call to a validator."""
    validator_fanout: FanOutLimit = AUTO_FAN_OUT
    """Into how many shares the validating work of a review may be divided among replicas; by default as many as make
    the review shorter."""
    validator_hedge_after: HedgeDelay = NEVER_HEDGED
    """When a call to a validator that has no answer is also made on another replica, if that changes nothing but the
    time; at most a tenth of the calls. Never by default: a copy costs what the call costs, and few fleets need it."""

    object_validation: OnOff = OnOff.OFF
    """Whether objects are decoded strictly, defaulted and validated as by an API server: for APIs that have no API
    server of Kubernetes, which does it by itself."""

    default_timeout_seconds: float = 10.0
    """The timeout of a review without ``?timeout=``. 10: the default of ``timeoutSeconds``."""
    max_timeout_seconds: float = 30.0
    """The longest timeout of a review, whatever it asks for. 30: the maximum of ``timeoutSeconds``."""
    answer_margin_seconds: float = 0.2
    """How long before its timeout a review is given up, so that the response arrives in time. 0.2: twice the 0.1 for
    which parsing a legal review of 7 MiB can block the event loop. Never more than a tenth of the timeout."""

    max_body_bytes: int = 7 * 1024 * 1024
    """The largest request body. 7 MiB, as in controller-runtime: a client's object has at most 3 MiB
    (``MaxRequestBodyBytes``), an UPDATE has two, and 1 MiB is for the rest of the review."""
    max_in_flight_bytes: int = 64 * 1024 * 1024
    """The most bytes of bodies in memory; reviews beyond it get 503. 64 MiB: nine of the largest, or 1,024 usual
    ones, which count as 64 KiB each, where a kube-apiserver with default flags has 600 requests in flight."""
    reserved_in_flight_bytes: int = 8 * 1024 * 1024
    """What urgent reviews may hold beyond that: reviews of nodes, leases and system users. 8 MiB: 128 usual ones,
    where 5,000 nodes that renew their leases every 10 s have 5 in flight if each takes 10 ms."""
    max_caller_requests: int = 0
    """The most reviews in flight of one authenticated caller; 0 is no limit, because API servers usually share their
    credentials."""
    max_caller_bytes: int = 0
    """The most bytes of reviews in flight of one such caller; 0 is no limit."""
    max_address_requests: int = 0
    """The most reviews in flight from one address, if callers need no credentials; 0 is no limit, because callers
    behind a load balancer share an address."""
    max_address_bytes: int = 0
    """The most bytes of reviews in flight from one such address; 0 is no limit."""
    max_address_connections: int = 1024
    """The most unauthenticated connections from one address; 0 is no limit. 1,024: a kube-apiserver with default
    flags has 600 requests in flight, and as many connections if each takes one."""
    max_unauthenticated_bytes: int = 40 * 1024 * 1024
    """The most bytes that all unauthenticated connections take; 0 is no limit. 40 MiB: 640 connections over TLS with
    64 KiB each, where a kube-apiserver with default flags has 600 requests in flight. An idle front door takes 70
    MiB, and stays below 150 this way, because an unfinished handshake takes half as much again."""
    max_head_bytes: int = 32 * 1024
    """The largest request head. A Go client sends ten fields in 400 bytes; a bearer token has 1 to 4 KiB."""
    max_head_fields: int = 100
    """The most header fields of a request: ten times what a Go client sends."""
    head_seconds: float = 5.0
    """How long a client may take for the TLS handshake and the head of a request, and to finish a body that is
    answered early, such as one that is too large."""
    body_seconds: float = 10.0
    """How long a client may take to send a body, whatever the timeout of its review. 10: the default of
    ``timeoutSeconds``, within which the review must be decided as well."""
    body_grace_seconds: float = 2.0
    """How long a body may arrive at any rate: two retransmissions of a lost packet."""
    min_body_bytes_per_second: int = 64 * 1024
    """The minimum rate of a body after that: half a megabit per second, which any link of a cluster has. A legal
    review of 7 MiB needs 0.7 MiB per second to arrive in time."""
    keep_alive_seconds: int = 120
    """How long an idle connection stays open. Longer than the 90 s after which Go's clients close it themselves: they
    do not retry a POST on a connection that is being closed."""
    webhook_breaker_failures: int = 0
    """After how many consecutive calls without an answer a webhook is not called for a while; 0 always calls it, as
    kube-apiserver does."""
    webhook_breaker_seconds: float = 10.0
    """How long it is not called the first time; each failed trial doubles it, up to 8 times. 10: the default of
    ``timeoutSeconds``, so that in twice that time at most one review waits for a dead webhook."""
    record: Path | None = None
    """The file to record reviews and decisions in, secrets redacted; None records nothing."""
    record_max_bytes: int = 64 * 1024 * 1024
    """The size at which a recording continues in another file. 64 MiB: about ten thousand reviews of Pods."""
    record_files: int = 4
    """The most files of a recording; the oldest is deleted."""
    record_max_review_bytes: int = 1024 * 1024
    """Recordings omit the objects of reviews with more bytes than this. 1 MiB: most of the objects that a cluster can
    store, limited to 1.5 MiB by etcd; an UPDATE has two."""
    console: bool = False
    """Whether ``/console`` shows the newest decisions, without the secrets of objects, to callers who may call."""
    decision_log: Path | None = None
    """The file of the decision log, with one chained line per decision; None writes none."""
    decision_log_key: Path | None = None
    """A file with the key of the hash chain; None means that anyone who can write the log can forge a valid chain."""
    decision_log_max_bytes: int = 64 * 1024 * 1024
    """The size at which a decision log continues in another file. 64 MiB: about 60,000 decisions."""
    decision_log_files: int = 0
    """The most files of a decision log; the oldest is deleted. 0 keeps all."""
    decision_log_required: bool = False
    """Whether a review is answered only once its entry is on the disk, and with 503 if it cannot be written."""
    drain_seconds: float = 10.0
    """How long new requests are still answered, with ``Connection: close``, after the first signal to stop. 10: the
    time until every kube-proxy has removed the endpoint, with some reserve."""
