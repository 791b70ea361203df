"""``pratique snapshot``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from pratique.apimachinery.errors import ConfigurationError
from pratique.apimachinery.json_values import JSONObject
from pratique.configuration.settings import ChainSettings
from pratique_cli.chain_options import chain_flags
from pratique_cli.encoding import dump_yaml
from pratique_cli.exit_codes import ExitCode
from pratique_cli.live_inputs import snapshot_for
from pratique_cli.options import ExistingPath, flag

EPILOG = """\b
The objects are those that the enabled controllers look up, the parameters of
policies, and CustomResourceDefinitions. Of Secrets, only the metadata is
read. With --folder, FOLDER/cluster.yaml is for --cluster, and
FOLDER/config.yaml for --config; without it, everything is written to standard
output, the configurations last.

\b
Examples:
  pratique snapshot --folder staging
  pratique review --cluster staging/cluster.yaml --config staging/config.yaml manifests/
  pratique snapshot --context production --only cluster > cluster.yaml
"""


@click.command("snapshot", epilog=EPILOG)
@flag(
    "--kubeconfig",
    type=ExistingPath(folders=False),
    help="The kubeconfig; by default as for kubectl: KUBECONFIG, or ~/.kube/config.",
)
@flag(
    "--context", metavar="NAME", default="", help="A context of the kubeconfig; by default its current one."
)
@flag(
    "--only",
    type=click.Choice(["cluster", "config"]),
    help="Write only the objects (cluster), or only policies and webhook configurations (config).",
)
@flag(
    "--folder",
    type=click.Path(file_okay=False, path_type=Path),
    help="Write cluster.yaml and config.yaml into this folder instead.",
)
@chain_flags
def command(
    chain: ChainSettings, kubeconfig: Path | None, context: str, only: str | None, folder: Path | None
) -> ExitCode:
    """Write what the enabled controllers look up in a live cluster, and its policies and webhooks, as YAML."""
    snapshot = snapshot_for(chain, kubeconfig, context)
    parts = {"cluster": snapshot.objects, "config": snapshot.configurations}
    chosen = {name: objects for name, objects in parts.items() if only in (None, name)}
    if folder is None:
        click.echo(_as_yaml([document for objects in chosen.values() for document in objects]), nl=False)
        return ExitCode.ADMITTED
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, objects in chosen.items():
            (folder / f"{name}.yaml").write_text(_as_yaml(objects), "utf-8")
    except OSError as error:
        raise ConfigurationError(f"--folder {folder}: cannot be written: {error.strerror}") from None
    return ExitCode.ADMITTED


def _as_yaml(objects: Sequence[JSONObject]) -> str:
    """A List where nothing is, because a file without a document is an error."""
    documents = objects or ({"apiVersion": "v1", "kind": "List", "items": []},)
    return "---\n".join(map(dump_yaml, documents))
