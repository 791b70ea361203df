"""What decides a review offline when a live cluster is named: its objects, policies and webhook configurations."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import msgspec

from pratique.apimachinery.source_documents import SourceDocument
from pratique.cluster.api_server import connect
from pratique.cluster.live import access_reviews_by
from pratique.cluster.snapshots import Snapshot, as_documents, read_snapshot
from pratique.cluster.store import ObjectStore
from pratique.configuration.settings import ChainSettings
from pratique.hosting.catalogue import load_catalogue
from pratique.hosting.cluster_roles import looked_up_beside_authorizer
from pratique_frontdoor.engines.local import LocalSources


class LiveInputs(msgspec.Struct, frozen=True):
    """The inputs of a chain that a live cluster gives."""

    objects: Sequence[SourceDocument]
    sources: LocalSources
    """The files of the chain's settings, and the configurations of the cluster besides."""


def snapshot_for(chain: ChainSettings, kubeconfig: Path | None, context: str) -> Snapshot:
    """Read what the enabled controllers of a chain look up in a kubeconfig's cluster, and its configurations.

    Raises:
        ConfigurationError: it cannot be read.
    """
    selected = load_catalogue().select(chain)
    looked_up = {name for controller in selected for name in controller.looks_up}
    return read_snapshot(kubeconfig, context, looked_up_beside_authorizer(looked_up, chain.authorizer))


def live_inputs(chain: ChainSettings, kubeconfig: Path, context: str) -> LiveInputs:
    """Read the inputs of a chain from a kubeconfig's cluster, besides its files.

    Raises:
        ConfigurationError: they cannot be read or used.
    """
    from pratique.configuration.loading import load_configurations  # noqa: PLC0415 - only with configurations

    snapshot = snapshot_for(chain, kubeconfig, context)
    configurations = load_configurations(chain.config, as_documents(snapshot.configurations))
    sources = msgspec.structs.replace(LocalSources.read(chain), configurations=configurations)
    return LiveInputs(tuple(as_documents(snapshot.objects)), sources)


@contextlib.asynccontextmanager
async def asking_api_server(chain: ChainSettings, store: ObjectStore) -> AsyncIterator[None]:
    """Let reviews of a store ask the API server of the chain's kubeconfig what users may do.

    Raises:
        ConfigurationError: the kubeconfig cannot be used.
    """
    server = await connect(chain.kubeconfig, chain.context)
    reviews = access_reviews_by(server, chain.access_review_seconds)
    try:
        store.access_reviews = reviews
        yield
    finally:
        store.access_reviews = None
        if reviews is not None:
            await reviews.close()
        await server.close()
