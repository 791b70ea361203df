"""The settings of the front door."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from pratique.configuration.settings import ChainSettings
from pratique_frontdoor.transports.hosting_services import CallKind


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class FrontDoorSettings:
    """Where the front door listens, whom it asks, and what it puts up with."""

    chain: ChainSettings = dataclasses.field(default_factory=ChainSettings)
    """What is in the chain and what it knows."""

    host: str = "127.0.0.1"
    """Address to listen on."""
    port: int = 8080
    """Port to listen on; 0 picks a free one."""
    tls_cert_file: Path | None = None
    """Certificate chain in PEM, own certificate first; with it and the key HTTPS is served, not HTTP."""
    tls_private_key_file: Path | None = None
    """The certificate's private key in PEM. Both files are read again when they change."""
    tls_min_version: str = "VersionTLS12"
    """The oldest version of TLS that is spoken, by Go's name: ``VersionTLS12`` or ``VersionTLS13``."""
    tls_cipher_suites: tuple[str, ...] = ()
    """Cipher suites of TLS 1.2, by Go's names; empty takes OpenSSL's own choice."""

    client_ca_file: Path | None = None
    """Certificates of authorities, in PEM: who has a certificate of one of them may call. Read again when it
    changes."""
    client_allowed_names: tuple[str, ...] = ()
    """Who of those may call: one of the names in the certificate, its common name, a DNS name or a URI, must be one
    of these. Empty lets all of them call."""
    token_file: Path | None = None
    """Bearer tokens, one a line: who has one of them may call. Read again when it changes."""
    basic_auth_file: Path | None = None
    """Users and passwords, ``user:password`` in each line: who has one may call. Read again when it changes."""

    mutator: str = "127.0.0.1:9001"
    """gRPC target of the mutator, for example ``dns:///mutator:9443``."""
    validators: tuple[str, ...] = ("127.0.0.1:9002",)
    """gRPC targets of the validators; calls are spread over all addresses that they resolve to."""

    services_ca_file: Path | None = None
    """Authorities of the services' certificates, in PEM; with it they are asked over TLS. Read again when it
    changes, as are the next two."""
    services_cert_file: Path | None = None
    """The certificate that the front door shows to services, in PEM."""
    services_private_key_file: Path | None = None
    """Its private key in PEM."""
    mutator_server_name: str = ""
    """The name that the mutator's certificate has to have; that in its target where not given."""
    validator_server_name: str = ""
    """The same of the validators'."""
    calls: CallKind = CallKind.STREAM
    """How the mutator and the validators are called."""
    slow_replica_seconds: float = 10.0
    """For how long a replica of theirs is left out, the first time, that is much slower than the others; each slow
    trial doubles it, up to 8 times. 0: none ever is. 10: the default of ``timeoutSeconds``, so that one review at most
    waits for such a replica in two such times."""

    default_timeout_seconds: float = 10.0
    """Time for a review that comes without ``?timeout=``. 10: the default of ``timeoutSeconds``."""
    max_timeout_seconds: float = 30.0
    """The longest time for a review, whatever it asks for. 30: the most that ``timeoutSeconds`` may be."""
    answer_margin_seconds: float = 0.2
    """How long before its time is up a review is given up, so that the answer arrives in time. 0.2: twice the
    0.1 for which a legal review of 7 MiB can hold up the event loop while it is parsed. Never more than a
    tenth of the time there is."""

    max_body_bytes: int = 7 * 1024 * 1024
    """The longest body that is read. 7 MiB, as in controller-runtime: a client's object has at most 3 MiB
    (``MaxRequestBodyBytes``), an UPDATE brings two, and 1 MiB is for all that goes round them."""
    max_in_flight_bytes: int = 64 * 1024 * 1024
    """Bodies that are held at a time; reviews that would exceed it are turned away with 503. 64 MiB: nine of
    the largest, and 1,024 of the usual ones, which count as 64 KiB each, where a kube-apiserver with default
    flags has 600 requests in flight."""
    reserved_in_flight_bytes: int = 8 * 1024 * 1024
    """What urgent reviews may hold beyond that: those of nodes, leases and system users. 8 MiB: 128 of the usual ones,
    where 5,000 nodes that renew their leases every 10 s have 5 in flight if each takes 10 ms."""
    max_caller_requests: int = 0
    """The most reviews in flight of one caller that is known by its credentials; 0 is no limit, because API servers
    usually share their credentials."""
    max_caller_bytes: int = 0
    """The most bytes of reviews that one such caller holds; 0 is no limit."""
    max_address_requests: int = 0
    """The most reviews in flight from one address, where callers need no credentials; 0 is no limit, because callers
    behind a load balancer share theirs."""
    max_address_bytes: int = 0
    """The most bytes of reviews that come from one such address; 0 is no limit."""
    max_address_connections: int = 1024
    """The most connections from one address whose callers were not let in; 0 is no limit. 1,024: a kube-apiserver with
    default flags has 600 requests in flight, and as many connections where each takes one."""
    max_unauthenticated_bytes: int = 40 * 1024 * 1024
    """What all connections together take up whose callers were not let in; 0 is no limit. 40 MiB: 640 over TLS, each
    with 64 KiB, where a kube-apiserver with default flags has 600 requests in flight. A front door with nothing to do
    takes 70 MiB, and stays below 150 so, because a handshake that never ends takes half as much again."""
    max_head_bytes: int = 32 * 1024
    """The longest head of a request. A Go client sends ten fields in 400 bytes; a bearer token has 1 to 4 KiB."""
    max_head_fields: int = 100
    """The most header fields of a request: ten times what a Go client sends."""
    head_seconds: float = 5.0
    """How long a client may take to shake hands and to send the head of a request, and to end a body that is
    answered before its end, as one that is too large is."""
    body_seconds: float = 10.0
    """How long a client may take to send a body, whatever time its review has. 10: the default of
    ``timeoutSeconds``, within which the review has to be decided as well."""
    body_grace_seconds: float = 2.0
    """How long a body may come as slowly as it likes: two retransmissions of a lost packet."""
    min_body_bytes_per_second: int = 64 * 1024
    """How much of a body has to come in each second after that: half a megabit, which any link of a cluster has. A
    legal review of 7 MiB needs 0.7 MiB in each to end in time."""
    keep_alive_seconds: int = 120
    """How long an idle connection stays open. More than the 90 after which Go's clients close it themselves:
    a POST that meets a closing connection is not sent again."""
    webhook_breaker_failures: int = 0
    """After how many calls in a row without an answer a webhook is not called for a while; 0: it is always called,
    as kube-apiserver does."""
    webhook_breaker_seconds: float = 10.0
    """For how long it is not called then, the first time; each failed trial doubles it, up to 8 times. 10: the
    default of ``timeoutSeconds``, so that one review at most waits for a dead webhook in two such times."""
    record: Path | None = None
    """Where to write what was asked and decided, secrets redacted; None: nowhere."""
    record_max_bytes: int = 64 * 1024 * 1024
    """The size at which a recording is continued in another file. 64 MiB: some ten thousand reviews of Pods."""
    record_files: int = 4
    """How many files a recording has at most; the oldest goes."""
    record_max_review_bytes: int = 1024 * 1024
    """Of reviews whose objects have more bytes a recording leaves the objects out. 1 MiB: most of the objects that a
    cluster can store, for whose 1.5 MiB (etcd's) an UPDATE brings two."""
    decision_log: Path | None = None
    """Where to write one chained line for each decision; None: nowhere."""
    decision_log_key: Path | None = None
    """A file with the key of the chain; None: anyone who can write the log can make a chain that is whole."""
    decision_log_max_bytes: int = 64 * 1024 * 1024
    """The size at which a decision log is continued in another file. 64 MiB: some 60,000 decisions."""
    decision_log_files: int = 0
    """How many files a decision log has at most; the oldest goes. 0: all are kept."""
    decision_log_required: bool = False
    """Whether reviews are answered with 503 while the decision log cannot be written."""
    drain_seconds: float = 10.0
    """How long new requests are still answered, with ``Connection: close``, after the first signal to stop.
    10: the time until every kube-proxy has heard that the endpoint is gone, with room to spare."""
