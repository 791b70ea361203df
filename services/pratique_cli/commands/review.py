"""``pratique review``."""

from __future__ import annotations

import asyncio
import functools
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click

from pratique.admission.controllers import BOTH, MUTATE, VALIDATE
from pratique.admission.reviews import impersonated_user
from pratique.apimachinery.requests import Operation, UserInfo
from pratique.cluster.files import load_cluster
from pratique.cluster.store import ObjectStore
from pratique.configuration.settings import ChainSettings
from pratique.manifests.requests import KUBECTL_USER
from pratique_cli.chain_options import CHAIN_PARAMETERS, chain_flags, plugin_parameters
from pratique_cli.exit_codes import ExitCode
from pratique_cli.loading import release_warnings
from pratique_cli.options import (
    REVIEW_FORMATS,
    ExistingPath,
    Seconds,
    SectionedCommand,
    WholeNumber,
    flag,
    format_flag,
)
from pratique_cli.outputs.writers import open_output
from pratique_cli.reviews.inputs import load_old
from pratique_cli.reviews.requests import RequestShape
from pratique_cli.reviews.runs import ReviewRun
from pratique_cli.terminal import Progress, printable, progress_for
from pratique_frontdoor.engines.engine import open_local
from pratique_frontdoor.engines.local import LocalEngine

REQUEST_PARAMETERS = ("operation", "subresource", "old", "namespace", "user", "group", "dry_run")
"""The names of the flags, in the order of the help."""

_REQUEST_OPTIONS = (
    flag(
        "--operation",
        type=click.Choice(Operation, case_sensitive=False),
        metavar=f"[{'|'.join(Operation)}]",
        default=Operation.CREATE,
        show_default=True,
        help="What is done with the object. CONNECT needs --subresource.",
    ),
    flag(
        "--subresource",
        metavar="NAME",
        default="",
        help="What of the object is asked for: status, scale, exec, eviction, token, …",
    ),
    flag(
        "--old",
        type=ExistingPath(),
        multiple=True,
        help="The objects as they are stored before an UPDATE or DELETE: a file or a folder. Repeatable. Of what is"
        " not there, what the run has admitted and --cluster have.",
    ),
    flag(
        "--namespace",
        metavar="NAME",
        help="Where objects go that name no namespace; others have to name this one.  [default: default]",
    ),
    flag(
        "--user",
        metavar="NAME",
        help=f"Who asks, as kubectl --as has it.  [default: {KUBECTL_USER.username}]",
    ),
    flag("--group", metavar="NAME", multiple=True, help="A group that --user is in. Repeatable."),
    flag("--dry-run", is_flag=True, help="Ask for a dry run: nothing is remembered for the next review."),
)


def request_flags(callback: Callable[..., Any]) -> Callable[..., Any]:
    """Add the flags to a command; it gets them as ``shape``, which makes a RequestShape for a cluster."""

    @functools.wraps(callback)
    def gather(**values: Any) -> Any:
        asked = {name: values.pop(name) for name in REQUEST_PARAMETERS}
        return callback(shape=functools.partial(_request_shape, **asked), **values)

    return functools.reduce(lambda command, add: add(command), reversed(_REQUEST_OPTIONS), gather)


def _request_shape(
    cluster: ObjectStore,
    *,
    operation: Operation,
    subresource: str,
    old: Sequence[Path],
    namespace: str | None,
    user: str | None,
    group: Sequence[str],
    dry_run: bool,
) -> RequestShape:
    """Make the shape of requests to a cluster; its definitions say what kinds ``--old`` may hold."""
    return RequestShape(
        operation=operation,
        subresource=subresource,
        old=load_old(old, cluster.resources, namespace) if old else None,
        namespace=namespace or None,
        user=_requesting_user(user, group),
        dry_run=dry_run,
    )


def _requesting_user(name: str | None, groups: Sequence[str]) -> UserInfo:
    if name:
        return impersonated_user(name, groups)
    if groups:
        raise click.UsageError("--group says which groups --user is in: name a user, too")
    return KUBECTL_USER


_LARGEST_EXIT_CODE = 125
"""A shell has its own meanings for those above: not executable, not found, ended by a signal."""

_PHASES = {"admit": BOTH, "mutate": MUTATE, "validate": VALIDATE}

EPILOG = """\b
FILE is an AdmissionReview in JSON or YAML, a JSON Lines stream of them, any
Kubernetes manifest (reviewed as a CREATE, unless flags say otherwise), a
folder of .yaml, .yml and .json, or - for standard input. Documents are
reviewed in order; what is admitted is seen by the reviews after it, as in
kubectl apply -f. The Pods that Deployments and other workloads would make
are reviewed with them: a Deployment may be admitted and run no Pods.

\b
Examples:
  pratique review deployment.yaml
  pratique review --pod-security restricted deployment.yaml
  pratique review --config webhooks/ --cluster cluster/ manifests/
  helm template chart | pratique review -o text -
  pratique review --operation UPDATE --old before.yaml after.yaml
  pratique review --operation CONNECT --subresource exec --user jane pod.yaml
  pratique review -o jsonl reviews.jsonl | jq .status.message
  pratique review -o junit manifests/ > admission.xml

\b
Exit codes: 0 every request admitted, 1 at least one denied, 2 wrong usage or
at least one unreadable document (the others are reviewed all the same), 3 the
program itself failed, or a review was not decided in time.
"""


SECTIONS = {
    "What a manifest asks for (an AdmissionReview says it itself)": REQUEST_PARAMETERS,
    "What decides": CHAIN_PARAMETERS,
    "Settings of single controllers": plugin_parameters(),
}


@click.command("review", cls=SectionedCommand, sections=SECTIONS, epilog=EPILOG)
@click.argument("files", metavar="FILE...", type=ExistingPath(dash=True), nargs=-1, required=True)
@flag(
    "--phase",
    type=click.Choice(list(_PHASES)),
    default="admit",
    show_default=True,
    help="What each request goes through: the mutating phase, the validating phase, or both.",
)
@format_flag(*REVIEW_FORMATS)
@flag("-v", "--verbose", is_flag=True, help="In text: why steps were skipped, times and endpoints.")
@flag(
    "--color/--no-color",
    default=None,
    help="Colour the text, or do not. Without either: on a terminal, unless NO_COLOR is set.",
)
@flag("--blame", is_flag=True, help="Tell which step set each field that changed, or that is denied.")
@flag(
    "--no-expand",
    is_flag=True,
    help="Leave out the Pods that Deployments and other workloads would make.",
)
@flag(
    "--timeout",
    type=Seconds(),
    default="10s",
    show_default=True,
    help="How long each review may take, such as 500ms or 30s.",
)
@flag(
    "--warn-exit-code",
    type=WholeNumber(0, _LARGEST_EXIT_CODE),
    default=ExitCode.ADMITTED.value,
    help="Exit code where nothing was denied, but something was warned of.",
)
@request_flags
@chain_flags
def command(  # noqa: PLR0913 - one for each flag
    files: tuple[Path, ...],
    chain: ChainSettings,
    shape: Callable[[ObjectStore], RequestShape],
    phase: str,
    output: str,
    *,
    warn_exit_code: int,
    verbose: bool,
    color: bool | None,
    blame: bool,
    no_expand: bool,
    timeout: float,
) -> int:
    """Decide manifests and recorded reviews offline: what would the cluster decide, and why?"""
    store = load_cluster(chain.cluster)
    progress = progress_for(sys.stderr, sys.stdout)
    for warning in release_warnings(chain, store):
        _complain(progress, warning)

    def make_run(engine: LocalEngine) -> ReviewRun:
        return ReviewRun(
            engine=engine,
            on_admitted=engine.on_admitted,
            store=store,
            phases=_PHASES[phase],
            timeout_seconds=timeout,
            output=open_output(output, verbose=verbose, colour=color, blame=blame),
            complain=functools.partial(_complain, progress),
            shape=shape(store),
            progress=progress,
            warn_exit_code=warn_exit_code,
            release=chain.release,
            expand=not no_expand,
        )

    return asyncio.run(_review(files, chain, store, make_run))


async def _review(
    files: Sequence[Path],
    chain: ChainSettings,
    store: ObjectStore,
    make_run: Callable[[LocalEngine], ReviewRun],
) -> int:
    # A read that waits for standard input is not ended by cancelling a task, which is asyncio's way.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    engine = open_local(chain, store)
    for line in engine.idle():
        click.echo(f"pratique: {printable(line)}", err=True)
    try:
        return await make_run(engine).run(files)
    finally:
        await engine.close()


def _complain(progress: Progress, problem: str) -> None:
    progress.clear()
    sys.stdout.flush()
    click.echo(f"pratique: {printable(problem)}", err=True)
