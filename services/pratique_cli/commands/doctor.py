"""``pratique doctor``."""

from __future__ import annotations

import asyncio
import collections
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pratique.apimachinery import names
from pratique.apimachinery.json_values import JSONObject
from pratique_cli.encoding import encode_list
from pratique_cli.exit_codes import ExitCode
from pratique_cli.options import ExistingPath, flag, format_flag
from pratique_cli.terminal import printable

if TYPE_CHECKING:
    from pratique_cli.installation_checks import InstallationFinding

EPILOG = """\b
It lists, and changes nothing: Namespaces and webhook configurations, and the
Deployments, PodDisruptionBudgets, Services, EndpointSlices, ConfigMaps and
Pods of one namespace. It reads no Secret. It needs the extra: pip install 'pratique[cluster]'

\b
Examples:
  pratique doctor
  pratique doctor --context staging --namespace admission
  pratique doctor -o json | jq '.[] | select(.severity == "error")'

\b
Exit codes: 0 no error, with or without warnings, 1 errors, 2 the kubeconfig
cannot be used or the API server cannot be asked.
"""


@click.command("doctor", epilog=EPILOG)
@flag(
    "--kubeconfig",
    type=ExistingPath(folders=False),
    help="The kubeconfig; by default as for kubectl: KUBECONFIG, or ~/.kube/config.",
)
@flag("--context", help="A context of the kubeconfig; by default its current one.")
@flag("--namespace", default="pratique", show_default=True, help="The namespace that Pratique runs in.")
@format_flag("text", "json")
def command(kubeconfig: Path | None, context: str | None, namespace: str, output: str) -> ExitCode:
    """Hold a live installation against Kubernetes' good practices for admission webhooks."""
    from pratique_cli.installation_checks import check_installation  # noqa: PLC0415 - the help does not need them
    from pratique_cli.installations import read_installation  # noqa: PLC0415 - likewise

    for message in names.check_dns1123_label(namespace):
        raise click.BadParameter(f"{namespace!r}: {message}", param_hint="--namespace")
    findings = check_installation(asyncio.run(read_installation(kubeconfig, context, namespace)))
    if output == "json":
        click.echo(encode_list([_document(finding) for finding in findings], output), nl=False)
    else:
        for finding in findings:
            click.echo("\n".join(map(printable, str(finding).split("\n"))))
        click.echo(_summary(findings))
    is_bad = any(finding.severity.value == "error" for finding in findings)
    return ExitCode.DENIED if is_bad else ExitCode.ADMITTED


def _document(finding: InstallationFinding) -> JSONObject:
    return {
        "severity": finding.severity.value,
        "rule": finding.rule,
        "where": finding.where,
        "what": finding.what,
        "fix": finding.fix,
    }


def _summary(findings: Sequence[InstallationFinding]) -> str:
    """Summarise findings: ``no problems found``, or ``1 error, 2 warnings``."""
    counts = collections.Counter(finding.severity.value for finding in findings)
    parts = [
        f"{counts[severity]} {severity}{'s' if counts[severity] > 1 else ''}"
        for severity in ("error", "warning")
        if counts[severity]
    ]
    return ", ".join(parts) or "no problems found"
