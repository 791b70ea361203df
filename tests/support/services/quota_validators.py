"""Validators that charge quotas, each a process of its own that is asked without a front door."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

from pratique.admission.results import Denied
from pratique.admission.reviews import Call, Deadline, Review
from pratique.apimachinery.json_values import Document
from pratique.apimachinery.kinds import GroupVersionKind, GroupVersionResource
from pratique.apimachinery.requests import Operation
from pratique_frontdoor.transports.grpc import GrpcTransport
from support.pods import pod
from support.services.processes import running


class QuotaValidator:
    """A validator that runs, whose only controller is ResourceQuota."""

    def __init__(self, pid: int, transport: GrpcTransport) -> None:
        """Use :func:`quota_validator`."""
        self.pid = pid
        self._transport = transport

    async def refusal(self, name: str, namespace: str = "shop") -> str:
        """Ask for a Pod; the message with which it is denied, empty if it is admitted."""
        review = Review(
            uid=f"{namespace}-{name}",
            operation=Operation.CREATE,
            kind=GroupVersionKind("", "v1", "Pod"),
            resource=GroupVersionResource("", "v1", "pods"),
            name=name,
            namespace=namespace,
            object_document=Document.from_data(pod(name=name, namespace=namespace)),
        )
        [outcome] = await self._transport.validate(review, [Call("ResourceQuota")], Deadline.after(20))
        return outcome.decision.status.message if isinstance(outcome.decision, Denied) else ""


@contextlib.asynccontextmanager
async def quota_validator(cluster: Path, *flags: str) -> AsyncIterator[QuotaValidator]:
    """Run one with the objects of a file or folder; it drains when the block ends."""
    chain = ("--admission-control", "ResourceQuota", "--cluster", str(cluster))
    arguments = ("serve", "validator", "--port", "0", *chain, *flags)
    async with running("validator", "-m", "pratique_cli", *arguments) as process:
        transport = GrpcTransport(process.address)
        try:
            yield QuotaValidator(process.pid, transport)
        finally:
            await transport.close()
        process.signal()
        await process.ended()
