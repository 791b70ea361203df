"""Connections that take long to be made."""

from __future__ import annotations

import asyncio
from pathlib import Path

import grpc

from chaos.links import linked
from chaos.systems import make_certificates
from pratique.admission.results import Allowed
from pratique.admission.reviews import Call, Deadline
from pratique_frontdoor.transports.grpc import GrpcTransport
from support.chains import pod_review
from support.services.processes import running

NAME = "LimitPodHardAntiAffinityTopology"


def test_a_service_is_reached_over_a_slow_connection(tmp_path: Path) -> None:
    """Three times there and back, 0.6 s each way: 3.6 s of the 10 that a review has."""

    async def scenario() -> None:
        await make_certificates(tmp_path / "certs")
        own = tmp_path / "certs" / "validator"
        tls = ("--tls-cert-file", str(own / "tls.crt"), "--tls-private-key-file", str(own / "tls.key"))
        serve = ("-m", "pratique_cli", "serve", "validator", "--port", "0", "--admission-control", NAME, *tls)
        async with (
            running("validator", *serve) as service,
            linked(int(service.address.rpartition(":")[2])) as link,
        ):
            trusted = grpc.ssl_channel_credentials((tmp_path / "certs" / "ca.crt").read_bytes())
            with link.slow(0.6):
                client = GrpcTransport(f"dns:///127.0.0.1:{link.port}", credentials=trusted)
                try:
                    [outcome] = await client.validate(pod_review(), [Call(NAME)], Deadline.after(30))
                finally:
                    await client.close()
            assert isinstance(outcome.decision, Allowed)

    asyncio.run(scenario())
