"""``pratique quotas``."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import click

from pratique.apimachinery.errors import CallError, ConfigurationError, InputError
from pratique.apimachinery.json_values import JSONObject
from pratique.cluster.files import load_cluster
from pratique.cluster.store import Cluster, ObjectStore
from pratique.configuration.settings import ChainSettings
from pratique.controllers.quota.checks import starting_usage
from pratique.controllers.quota.evaluators import COUNTED_RESOURCES
from pratique.controllers.quota.ledger import AccountKey, Usage, ledger_url, open_ledger
from pratique.controllers.quota.resource_quotas import read_quota
from pratique_cli.chain_options import chain_flags, kubeconfig_flags
from pratique_cli.encoding import encode_list
from pratique_cli.options import FORMATS, format_flag
from pratique_cli.outputs.columns import Column, Row, table_text
from pratique_cli.terminal import palette_for, print_problem

EPILOG = """\b
SOURCE is where the usage comes from: the ledger that validators charge, or,
for a quota that is not in it yet, the quota's own status or a count of the
objects in its namespace.

\b
Examples:
  pratique quotas --cluster cluster/
  pratique quotas --cluster cluster/ --resource-quota-ledger quotas.sqlite
  pratique quotas --kubeconfig ~/.kube/config --context staging
  pratique quotas --cluster cluster/ -o json | jq '.[] | select(.used == .hard)'
"""

_COLUMNS = (
    *(Column(title, keep=False) for title in ("NAMESPACE", "QUOTA", "RESOURCE")),
    *(Column(title, right=True) for title in ("USED", "HARD")),
    Column("SOURCE"),
)
_FIELDS = ("namespace", "quota", "resource", "used", "hard", "source")


@click.command("quotas", epilog=EPILOG)
@format_flag("text", "table", *FORMATS[1:])
@kubeconfig_flags
@chain_flags
def command(chain: ChainSettings, output: str, kubeconfig: Path | None, context: str) -> None:
    """Show the usage of each ResourceQuota, as validators with the same flags see it.

    This only reads the ledger. `pratique up` removes its ledger at its end, unless --resource-quota-ledger names one.
    """
    cluster = _cluster(chain, kubeconfig, context)
    rows = list(_rows(cluster, asyncio.run(_ledger_usage(ledger_url(chain)))))
    if not rows:
        print_problem(
            "note: there is no ResourceQuota, and nothing in the ledger: name files by --cluster, or a live cluster by"
            " --kubeconfig"
        )
    if output in {"text", "table"}:
        palette = palette_for(sys.stdout, colour=None)
        cells = [Row([str(row[field] or "-") for field in _FIELDS]) for row in rows]
        click.echo(table_text(_COLUMNS, cells, palette), nl=False, color=palette.colour)
    else:
        click.echo(encode_list(rows, output), nl=False)


def _cluster(chain: ChainSettings, kubeconfig: Path | None, context: str) -> Cluster:
    """The quotas and what they count: of files, or of a live cluster.

    Raises:
        ConfigurationError: they cannot be read.
    """
    if kubeconfig is None:
        if context:
            raise click.UsageError("--context names a part of a kubeconfig: give --kubeconfig, too")
        return load_cluster(chain.cluster)
    if chain.cluster:
        raise click.UsageError("--cluster and --kubeconfig name two clusters: give one of them")
    from pratique.cluster.snapshots import read_snapshot  # noqa: PLC0415 - only for a live cluster

    snapshot = read_snapshot(kubeconfig, context, {"resourcequotas", *COUNTED_RESOURCES})
    return ObjectStore(snapshot.objects)


async def _ledger_usage(url: str) -> Mapping[AccountKey, Usage]:
    ledger = open_ledger(url)
    try:
        return await ledger.accounts()
    except CallError as error:
        raise ConfigurationError(str(error)) from None
    finally:
        await ledger.close()


def _rows(cluster: Cluster, known: Mapping[AccountKey, Usage]) -> Iterator[JSONObject]:
    """Yield one row for each resource of the cluster's quotas, then of quotas that only the ledger has."""
    unlisted = dict(known)
    for document in cluster.list("", "resourcequotas"):
        try:
            quota = read_quota(document)
            used = unlisted.pop((quota.namespace, quota.name, quota.uid), None)
            source = "ledger" if used is not None else "counted" if quota.used is None else "status"
            amounts = {**starting_usage(quota, cluster), **(used or {})}
        except InputError as error:
            raise ConfigurationError(str(error)) from None
        for resource, hard in sorted(quota.hard.items()):
            amount = amounts.get(resource)
            values = (None if amount is None else str(amount), str(hard), source)
            yield _row(quota.namespace, quota.name, resource, *values)
    for (namespace, name, _), usage in sorted(unlisted.items()):
        for resource, amount in sorted(usage.items()):
            yield _row(namespace, name, resource, str(amount), None, "ledger")


def _row(*values: str | None) -> JSONObject:
    return dict(zip(_FIELDS, values, strict=True))
