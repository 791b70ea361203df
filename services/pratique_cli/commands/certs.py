"""``pratique certs``."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pratique.apimachinery.errors import ConfigurationError
from pratique_cli.options import WholeNumber, flag

if TYPE_CHECKING:
    from pratique_cli.certificate_authority import CertificateSpec, WrittenCertificate

_SERVICES = ("frontdoor", "mutator", "validator")
_THIS_MACHINE = ("localhost", "127.0.0.1", "::1")
_LABEL = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
_CLIENT = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,62}")
"""A common name has at most 64 characters, and is also the name of a folder here."""

EPILOG = """\b
Examples:
  pratique certs certs
  pratique certs certs --namespace admission --client kube-apiserver
  pratique certs certs --host admission.example.com --days 90
  pratique certs certs -o yaml | kubectl apply -f -

\b
If you run it again, it keeps valid certificates, renews those past two thirds
of their lifetime, and makes a new authority only with --force. Services
reload renewed certificates by themselves.
"""


@click.command("certs", epilog=EPILOG)
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))
@flag("--service", default="pratique", show_default=True, help="Prefix of the services' names.")
@flag("--namespace", default="default", show_default=True, help="Namespace of the services.")
@flag("--host", "hosts", multiple=True, help="A further name or IP address of all services. Repeatable.")
@flag("--client", "clients", multiple=True, help="A client to make a certificate for. Repeatable.")
@flag(
    "--days",
    type=WholeNumber(1, 3650),
    default=365,
    show_default=True,
    help="Lifetime of the certificates; the authority lasts ten years.",
)
@flag(
    "--force",
    is_flag=True,
    help="Replace everything, including the authority; no client trusts the new one yet.",
)
@flag(
    "-o",
    "--output",
    type=click.Choice(["text", "yaml"]),
    default="text",
    show_default=True,
    help="yaml: also write Secrets to standard output, including the keys.",
)
def command(
    folder: Path,
    service: str,
    namespace: str,
    hosts: tuple[str, ...],
    clients: tuple[str, ...],
    *,
    days: int,
    force: bool,
    output: str,
) -> None:
    """Make a certificate authority, and certificates for the services and their clients.

    For development and small clusters. DIR holds ca.crt and ca.key, and a folder with tls.crt, tls.key and ca.crt
    for each of frontdoor, mutator, validator and the clients. Only their owner can read the keys.
    """
    wanted = _certificate_specs(service, namespace, hosts, clients)
    certificates = _fill_folder(folder, wanted, days, force=force)
    for certificate in certificates:
        click.echo(str(certificate), err=output == "yaml")
    if output == "yaml":
        from pratique_cli.certificate_authority import secrets_yaml  # noqa: PLC0415 - rarely needed

        click.echo(secrets_yaml(certificates, service, namespace), nl=False)


def _certificate_specs(
    service: str, namespace: str, hosts: tuple[str, ...], clients: tuple[str, ...]
) -> dict[str, CertificateSpec]:
    # Imported here, because it takes a tenth of a second that the help does not need.
    from pratique_cli.certificate_authority import CertificateSpec, check_hosts  # noqa: PLC0415

    for name, value in (("--service", service), ("--namespace", namespace)):
        if not _LABEL.fullmatch(value):
            raise ConfigurationError(
                f"{name} {value}: expected lower case letters, digits and -, at most 63 of them"
            )
    check_hosts(hosts, "--host")
    for client in clients:
        if not _CLIENT.fullmatch(client) or client in _SERVICES:
            reason = "expected at most 63 letters, digits and . _ : -, and not the name of a service"
            raise ConfigurationError(f"--client {client}: {reason}")
    serving = {
        name: CertificateSpec(
            name,
            tuple(dict.fromkeys((*_service_names(name, service, namespace), *_THIS_MACHINE, *hosts))),
            serves=True,
        )
        for name in _SERVICES
    }
    return serving | {client: CertificateSpec(client, (), serves=False) for client in clients}


def _service_names(name: str, service: str, namespace: str) -> list[str]:
    """The DNS names of a service in compose and in a cluster; the front door also has the name of the whole."""
    short = (name, f"{service}-{name}", *([service] if name == "frontdoor" else []))
    ends = ("", f".{namespace}", f".{namespace}.svc", f".{namespace}.svc.cluster.local")
    return [begin + end for begin in short for end in ends]


def _fill_folder(
    folder: Path, wanted: dict[str, CertificateSpec], days: int, *, force: bool
) -> list[WrittenCertificate]:
    from pratique_cli.certificate_authority import CertificateFolder  # noqa: PLC0415 - as above

    try:
        return list(CertificateFolder(folder, days, force).fill(wanted))
    except OSError as error:
        raise ConfigurationError(f"{error.filename or folder}: {error.strerror}") from None
