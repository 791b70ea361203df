"""The settings of the front door."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from pratique.settings import ChainSettings

if TYPE_CHECKING:
    from pathlib import Path


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

    mutator: str = "127.0.0.1:9001"
    """gRPC target of the mutator, for example ``dns:///mutator:9443``."""
    validators: tuple[str, ...] = ("127.0.0.1:9002",)
    """gRPC targets of the validators; calls are spread over all addresses that they resolve to."""

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
    head_seconds: float = 5.0
    """How long a client may take to shake hands and to send the head of a request, and to end a body that is
    answered before its end, as one that is too large is."""
    keep_alive_seconds: int = 120
    """How long an idle connection stays open. More than the 90 after which Go's clients close it themselves:
    a POST that meets a closing connection is not sent again."""
    drain_seconds: float = 10.0
    """How long new requests are still answered, with ``Connection: close``, after the first signal to stop.
    10: the time until every kube-proxy has heard that the endpoint is gone, with room to spare."""
