"""``pratique certs``."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pratique.apimachinery.errors import ConfigurationError
from pratique.apimachinery.patterns import pattern
from pratique_cli.options import ExistingPath, Seconds, WholeNumber, flag

if TYPE_CHECKING:
    from pratique_cli.certificate_authority import CertificateSpec, WrittenCertificate

_SERVICES = ("frontdoor", "mutator", "validator")
_IMAGE_VERIFIER = "image-verifier"
_THIS_MACHINE = ("localhost", "127.0.0.1", "::1")
_LABEL = pattern(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
_CLIENT = pattern(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,62}")
"""A common name has at most 64 characters, and is also the name of a folder here."""

EPILOG = """\b
Examples:
  pratique certs certs
  pratique certs certs --namespace admission --client kube-apiserver
  pratique certs certs --host admission.example.com --days 90
  pratique certs certs --namespace admission --image-verifier
  pratique certs certs -o yaml | kubectl apply -f -
  pratique certs renew certs --before 720h

\b
If you run it again, it keeps valid certificates, renews those past two thirds
of their lifetime, and makes a new authority only with --force. Services
reload renewed certificates by themselves.

\b
"pratique certs renew DIR" renews what a folder holds without being told of
names and clients again, and replaces an authority step by step: see
"pratique certs renew --help". A folder called renew is ./renew.
"""

RENEW_EPILOG = """\b
Examples:
  pratique certs renew certs                     by a timer, once a day
  pratique certs renew certs --before 720h --keep-keys
  pratique certs renew certs --webhooks webhooks.yaml
  pratique certs renew certs -o yaml | kubectl apply -f -
  pratique certs renew certs --rotate-authority  three times: see docs/tls.md

\b
Without --before, it renews what is in the last third of its life.
"""

_service_flag = flag(
    "--service", default="pratique", show_default=True, help="Prefix of the services' names."
)
_namespace_flag = flag("--namespace", default="default", show_default=True, help="Namespace of the services.")
_output_flag = flag(
    "-o",
    "--output",
    type=click.Choice(["text", "yaml"]),
    default="text",
    show_default=True,
    help="yaml: also write Secrets to standard output, including the keys.",
)


class _CertsCommand(click.Command):
    """Makes certificates; if its first argument is ``renew``, the rest is for that command."""

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        """Make the context of the command that the arguments are for."""
        if args[:1] == ["renew"]:
            return renew.make_context(f"{info_name} renew", args[1:], parent, **extra)
        return super().make_context(info_name, args, parent, **extra)


@click.command("renew", epilog=RENEW_EPILOG)
@click.argument("folder", metavar="DIR", type=ExistingPath())
@flag(
    "--before",
    type=Seconds(),
    metavar="DURATION",
    help="Renew what ends within this time, such as 720h. By default: what is in the last third of its life.",
)
@flag(
    "--days",
    type=WholeNumber(1, 3650),
    help="Lifetime of new certificates; by default that of the ones before.",
)
@flag("--keep-keys", is_flag=True, help="Keep the keys of certificates, for clients that pin them.")
@flag(
    "--rotate-authority",
    is_flag=True,
    help="Take the next of three steps to a new authority, through a time in which both are trusted.",
)
@flag(
    "--webhooks",
    type=ExistingPath(folders=False),
    multiple=True,
    help="A file of webhook configurations, to write the caBundle of this authority into. Repeatable.",
)
@_service_flag
@_namespace_flag
@_output_flag
def renew(  # noqa: PLR0913 - one for each flag
    folder: Path,
    webhooks: tuple[Path, ...],
    service: str,
    namespace: str,
    *,
    before: float | None,
    days: int | None,
    keep_keys: bool,
    rotate_authority: bool,
    output: str,
) -> None:
    """Renew the certificates in DIR that are due, while the services that use them go on.

    DIR is what "pratique certs" has made. Each file is replaced at once; services load them by themselves.
    """
    from pratique_cli.certificate_renewals import CertificateRenewal, update_ca_bundles  # noqa: PLC0415 - as below

    _check_labels(service, namespace)
    renewal = CertificateRenewal(folder, dt.timedelta(seconds=before) if before else None, days, keep_keys)
    try:
        known = (folder / "ca.crt").read_bytes() if webhooks and (folder / "ca.crt").exists() else b""
        for file in webhooks if known else ():
            # Before a step towards another authority, which the next run would not repeat.
            update_ca_bundles(file, known, known, write=False)
        certificates, note = renewal.run(rotate=rotate_authority)
        bundle = (folder / "ca.crt").read_bytes()
        updated = [update_ca_bundles(file, bundle, known + bundle, write=True) for file in webhooks]
    except OSError as error:
        raise ConfigurationError(f"{error.filename or folder}: {error.strerror}") from None
    _write(certificates, output, service, namespace)
    for line in (*updated, *note.splitlines()):
        click.echo(line, err=output == "yaml")


@click.command("certs", cls=_CertsCommand, epilog=EPILOG)
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))
@_service_flag
@_namespace_flag
@flag("--host", "hosts", multiple=True, help="A further name or IP address of all services. Repeatable.")
@flag("--client", "clients", multiple=True, help="A client to make a certificate for. Repeatable.")
@flag("--image-verifier", is_flag=True, help="Make a certificate for the image verifier, too.")
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
@_output_flag
def command(  # noqa: PLR0913 - one for each flag
    folder: Path,
    service: str,
    namespace: str,
    hosts: tuple[str, ...],
    clients: tuple[str, ...],
    *,
    image_verifier: bool,
    days: int,
    force: bool,
    output: str,
) -> None:
    """Make a certificate authority, and certificates for the services and their clients.

    For development and small clusters. DIR holds ca.crt and ca.key, and a folder with tls.crt, tls.key and ca.crt
    for each of frontdoor, mutator, validator and the clients. Only their owner can read the keys.
    """
    services = (*_SERVICES, _IMAGE_VERIFIER) if image_verifier else _SERVICES
    wanted = _certificate_specs(service, namespace, hosts, clients, services)
    _write(_fill_folder(folder, wanted, days, force=force), output, service, namespace)


def _write(certificates: Sequence[WrittenCertificate], output: str, service: str, namespace: str) -> None:
    for certificate in certificates:
        click.echo(str(certificate), err=output == "yaml")
    if output == "yaml":
        from pratique_cli.certificate_authority import secrets_yaml  # noqa: PLC0415 - rarely needed

        click.echo(secrets_yaml(certificates, service, namespace), nl=False)


def _certificate_specs(
    service: str,
    namespace: str,
    hosts: tuple[str, ...],
    clients: tuple[str, ...],
    services: tuple[str, ...] = _SERVICES,
) -> dict[str, CertificateSpec]:
    # Imported here, because it takes a tenth of a second that the help does not need.
    from pratique_cli.certificate_authority import CertificateSpec, check_hosts  # noqa: PLC0415

    _check_labels(service, namespace)
    check_hosts(hosts, "--host")
    for client in clients:
        if not _CLIENT.fullmatch(client) or client in (*_SERVICES, _IMAGE_VERIFIER):
            reason = "expected at most 63 letters, digits and . _ : -, and not the name of a service"
            raise ConfigurationError(f"--client {client}: {reason}")
    serving = {
        name: CertificateSpec(
            name,
            tuple(dict.fromkeys((*_service_names(name, service, namespace), *_THIS_MACHINE, *hosts))),
            serves=True,
        )
        for name in services
    }
    return serving | {client: CertificateSpec(client, (), serves=False) for client in clients}


def _check_labels(service: str, namespace: str) -> None:
    for name, value in (("--service", service), ("--namespace", namespace)):
        if not _LABEL.fullmatch(value):
            raise ConfigurationError(
                f"{name} {value}: expected lower case letters, digits and -, at most 63 of them"
            )


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
