"""What decides a review offline when a live cluster is named: its objects, policies and webhook configurations."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path

from pratique.apimachinery.source_documents import SourceDocument
from pratique.cluster.snapshots import Snapshot, as_documents, read_snapshot
from pratique.configuration.settings import ChainSettings
from pratique.hosting.catalogue import load_catalogue
from pratique_frontdoor.engines.local import LocalSources


@dataclasses.dataclass(frozen=True, slots=True)
class LiveInputs:
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
    return read_snapshot(
        kubeconfig, context, {name for controller in selected for name in controller.looks_up}
    )


def live_inputs(chain: ChainSettings, kubeconfig: Path, context: str) -> LiveInputs:
    """Read the inputs of a chain from a kubeconfig's cluster, besides its files.

    Raises:
        ConfigurationError: they cannot be read or used.
    """
    from pratique.configuration.loading import load_configurations  # noqa: PLC0415 - only with configurations

    snapshot = snapshot_for(chain, kubeconfig, context)
    configurations = load_configurations(chain.config, as_documents(snapshot.configurations))
    sources = dataclasses.replace(LocalSources.read(chain), configurations=configurations)
    return LiveInputs(tuple(as_documents(snapshot.objects)), sources)
