"""``pratique rules``."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pratique.apimachinery.errors import ConfigurationError
from pratique.apimachinery.json_values import JSONObject
from pratique.cluster.files import load_cluster
from pratique.configuration.loading import Configurations, load_configurations
from pratique.configuration.settings import AuthorizerSource, ChainSettings
from pratique.hosting.cluster_roles import (
    PHASES_OF_SERVICES,
    FollowedResources,
    creates_namespaces,
    followed_rule,
    known_resources,
    policy_rules,
)
from pratique.hosting.webhook_rules import matches_everything
from pratique_cli.chain_options import authorizer_flag, chain_flags
from pratique_cli.encoding import dump_yaml, indented_json
from pratique_cli.options import ExistingPath, NameList, flag, flattened, format_flag, timeout_flag
from pratique_cli.terminal import print_problem
from pratique_cli.webhook_configurations import (
    PHASES,
    SYSTEM_NAMESPACES,
    Endpoint,
    WebhookSettings,
    parse_label_selector,
    read_ca_bundle,
    webhook_configurations,
)
from pratique_frontdoor.engines.engine import ChainSources

if TYPE_CHECKING:
    from pratique.cluster.reflectors import Collection

_DEFAULT_SERVICE = "pratique/pratique"
_MAX_TIMEOUT_SECONDS = 30

EPILOG = """\b
The rules match what the enabled controllers, the policies and the webhooks of
--config match, with all subresources, and nothing else. Selectors and match
conditions are left to the chain. Where a controller matches every resource,
access reviews are left out, and so are the leases and status of nodes unless
NodeRestriction is enabled: a cluster that waits for them could not start
Pratique again.

\b
The namespace of the Service is always left out, so that Pratique can start
while it is down. An API server calls no webhook for webhook configurations.

\b
With --rbac: for each service a ClusterRole and its binding, with what it needs
to follow the objects of the cluster (serve --in-cluster).

\b
Examples:
  pratique rules --admission-control AlwaysPullImages --ca-file certs/ca.crt
  pratique rules --rbac --config policies/ | kubectl apply -f -
  pratique rules --config policies/ --admission-control ValidatingAdmissionPolicy \\
      --failure-policy Ignore --namespace-selector pratique=on | kubectl apply -f -
  pratique rules --url https://10.0.0.7:8443 --ca-file ca.crt --phase admit -o json
"""


def _namespace_selector(
    ctx: click.Context, param: click.Parameter, value: str | None
) -> tuple[JSONObject, ...]:
    try:
        return () if value is None else parse_label_selector(value)
    except ValueError as error:
        raise click.BadParameter(str(error), ctx, param) from None


@click.command("rules", epilog=EPILOG)
@flag("--url", metavar="URL", help="The front door's URL, instead of a Service: https://HOST[:PORT][/PATH].")
@flag(
    "--service",
    metavar="NS/NAME[:PORT][/PATH]",
    help=f"The front door's Service; {_DEFAULT_SERVICE}:443 by default.",
)
@flag(
    "--ca-file",
    type=ExistingPath(folders=False),
    help="The authority of the front door's certificate, in PEM form; without it, API servers use their own.",
)
@flag(
    "--failure-policy",
    type=click.Choice(["Ignore", "Fail"]),
    default="Fail",
    show_default=True,
    help="What API servers do with a request while Pratique does not answer: let it pass, or refuse it.",
)
@timeout_flag("a review")
@flag(
    "--exclude-namespaces",
    type=NameList(),
    multiple=True,
    help=f"The namespaces to leave out beside the Service's own, instead of {','.join(SYSTEM_NAMESPACES)}.",
)
@flag(
    "--namespace-selector",
    metavar="SELECTOR",
    callback=_namespace_selector,
    help="Only namespaces with these labels, such as pratique=on or 'stage in (dev,test)'.",
)
@flag(
    "--phase",
    type=click.Choice(list(PHASES)),
    default="split",
    show_default=True,
    help="What API servers call: one phase, both in one call (admit), or both by two webhooks (split).",
)
@flag(
    "--rbac",
    is_flag=True,
    help="Write instead the roles of services that follow the cluster, for the ServiceAccounts of the Service's"
    " namespace.",
)
@flag(
    "--policies-from",
    metavar="SOURCE",
    multiple=True,
    help="With --rbac: let them read this source of policies, too, named as for `pratique up`. Repeatable.",
)
@authorizer_flag("With --rbac: what says to them what users may do:")
@format_flag("yaml", "json", default="yaml")
@chain_flags
def command(
    chain: ChainSettings,
    output: str,
    phase: str,
    *,
    rbac: bool,
    policies_from: tuple[str, ...],
    authorizer: AuthorizerSource,
    **values: Any,
) -> None:
    """Write the webhook configurations that an API server needs for the enabled chain."""
    settings = _settings(**values)
    if policies_from and not rbac:
        raise click.UsageError("--policies-from is about the roles of services: give --rbac, too")
    if authorizer is AuthorizerSource.CLUSTER and not rbac:
        raise click.UsageError("--authorizer is about the roles of services: give --rbac, too")
    chain = dataclasses.replace(chain, authorizer=authorizer)
    policies = _collections_of(policies_from)
    sources = ChainSources.read(chain)
    sources.configure(sources.selected)
    configurations = load_configurations(chain.config)
    if rbac:
        _print_documents(list(_roles(chain, sources, configurations, settings.endpoint, policies)), output)
        return
    documents = list(webhook_configurations(phase, sources.selected, configurations, settings))
    if not documents:
        raise ConfigurationError(
            f"the chain has nothing to do in the phase {phase}: enable a controller, or name policies with --config"
        )
    _print_documents(documents, output)
    _note_wildcards(sources, phase)
    _note_selectors(documents, settings)


def _print_documents(documents: list[JSONObject], output: str) -> None:
    if output == "json":
        click.echo(indented_json({"apiVersion": "v1", "kind": "List", "items": [*documents]}), nl=False)
    else:
        click.echo("---\n".join(map(dump_yaml, documents)), nl=False)


_RBAC = "rbac.authorization.k8s.io"


def _roles(
    chain: ChainSettings,
    sources: ChainSources,
    configurations: Configurations,
    endpoint: Endpoint,
    policies: Sequence[Collection],
) -> Iterator[JSONObject]:
    """Yield the roles of each service with their bindings; ``policies`` are read beside what controllers look up."""
    if endpoint.namespace is None:
        raise click.UsageError(
            "--rbac is for ServiceAccounts of a namespace: give --service instead of --url."
        )
    definitions = load_cluster(chain.cluster).definitions() if chain.cluster else ()
    known = known_resources(definitions)
    unknown: dict[str, None] = {}
    for service in PHASES_OF_SERVICES:
        followed = FollowedResources.of_service(
            service, sources.selected, configurations, known, chain.authorizer
        )
        needed = policy_rules(
            followed,
            provisions=creates_namespaces(service, sources.selected),
            asks_api_server=chain.authorizer is AuthorizerSource.CLUSTER,
        )
        rules = [*needed, *_reading_rules(policies, "")]
        unknown |= dict.fromkeys(followed.unknown_parameters)
        name = f"{endpoint.service_name}-{service}"
        yield from _role(name, endpoint.namespace, rules)
        for place in dict.fromkeys(policy.namespace for policy in policies if policy.namespace):
            yield from _role(name, endpoint.namespace, _reading_rules(policies, place), place)
    for kind in unknown:
        print_problem(
            f"note: no role lets services read {kind}, the parameters of a policy: give its"
            " CustomResourceDefinition with --cluster"
        )


def _collections_of(sources: Iterable[str]) -> list[Collection]:
    """Return what the sources of ``--policies-from`` read.

    Raises:
        ConfigurationError: one is no source.
    """
    from pratique.configuration.live_configurations import collections_of  # noqa: PLC0415 - seldom needed

    return [collection for source in sources for collection in collections_of(source)]


def _reading_rules(policies: Iterable[Collection], namespace: str) -> list[JSONObject]:
    """Return the rules that let services read policies of one namespace, or those that are in none."""
    found = dict.fromkeys(policy.at for policy in policies if policy.namespace == namespace)
    return [followed_rule(group, [resource]) for group, resource in found]


def _role(name: str, accounts: str, rules: list[JSONObject], namespace: str = "") -> Iterator[JSONObject]:
    """Yield a role for the ServiceAccount of the same name in ``accounts``; it is for one namespace, or for all."""
    metadata: JSONObject = {"name": name, "labels": {"app.kubernetes.io/part-of": "pratique"}}
    if namespace:
        metadata["namespace"] = namespace
    head, kind = f"{_RBAC}/v1", "Role" if namespace else "ClusterRole"
    yield {"apiVersion": head, "kind": kind, "metadata": metadata, "rules": [*rules]}
    subject: JSONObject = {"kind": "ServiceAccount", "name": name, "namespace": accounts}
    role: JSONObject = {"apiGroup": _RBAC, "kind": kind, "name": name}
    binding: JSONObject = {"apiVersion": head, "kind": f"{kind}Binding", "metadata": metadata}
    yield {**binding, "roleRef": role, "subjects": [subject]}


def _settings(
    *,
    url: str | None,
    service: str | None,
    ca_file: Path | None,
    failure_policy: str,
    timeout: float,
    exclude_namespaces: tuple[tuple[str, ...], ...],
    namespace_selector: tuple[JSONObject, ...],
) -> WebhookSettings:
    if url is not None and service is not None:
        raise click.UsageError("--url and --service exclude each other: name one of them.")
    if timeout != int(timeout) or timeout > _MAX_TIMEOUT_SECONDS:
        text = f"the timeout of a webhook is whole seconds, from 1s to {_MAX_TIMEOUT_SECONDS}s"
        raise click.BadParameter(text, param_hint="--timeout")
    try:
        endpoint = (
            Endpoint.of_url(url) if url is not None else Endpoint.of_service(service or _DEFAULT_SERVICE)
        )
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--service") from None
    return WebhookSettings(
        endpoint=endpoint,
        ca_bundle=b"" if ca_file is None else read_ca_bundle(ca_file),
        failure_policy=failure_policy,
        timeout_seconds=int(timeout),
        excluded_namespaces=flattened(exclude_namespaces) or SYSTEM_NAMESPACES,
        namespace_selector=namespace_selector,
    )


def _note_wildcards(sources: ChainSources, phase: str) -> None:
    """Say which controllers make an API server ask about everything, node leases and status included."""
    phases = frozenset().union(*(found for _, _, found in PHASES[phase]))
    names = matches_everything(sources.selected, phases)
    if names:
        print_problem(
            f"note: {', '.join(names)} match every resource, so API servers ask about nearly all that changes;"
            " to match less, leave out what your API server does itself (--disable-admission-plugins)"
        )


def _note_selectors(documents: list[JSONObject], settings: WebhookSettings) -> None:
    """Say where a chosen selector of namespaces has no effect, because nothing that is matched is in a namespace."""
    if not settings.namespace_selector:
        return
    without = [str(document["kind"]) for document in documents if "namespaceSelector" not in str(document)]
    for kind in without:
        print_problem(
            f"note: --namespace-selector has no effect on the {kind}: all that the chain matches there is in no"
            " namespace"
        )
