"""``pratique review``."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import functools
import os
import stat
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pratique.admission.reviews import impersonated_user
from pratique.apimachinery.manifest_files import holds_files
from pratique.apimachinery.requests import Operation, UserInfo
from pratique.apimachinery.source_documents import STDIN
from pratique.cluster.files import load_cluster
from pratique.cluster.store import ASSUMABLE, ObjectStore
from pratique.configuration.settings import AuthorizerSource, ChainSettings, OnOff
from pratique.manifests.requests import KUBECTL_USER
from pratique_cli.chain_options import (
    CHAIN_PARAMETERS,
    authorizer_flag,
    chain_flags,
    kubeconfig_flags,
    plugin_parameters,
)
from pratique_cli.exit_codes import ExitCode
from pratique_cli.loading import cluster_notes, exclusion_notes, label_notes
from pratique_cli.options import (
    ExistingPath,
    NameList,
    OutputTarget,
    SectionedCommand,
    WholeNumber,
    color_flag,
    exclude_flag,
    flag,
    flattened,
    outputs_flag,
    timeout_flag,
)
from pratique_cli.outputs import OutputStyle, SelectedOutput, Selection, open_output
from pratique_cli.progress import Progress, no_progress_flag, progress_for
from pratique_cli.reviews.inputs import Input, load_old, read_parts, tell_progress
from pratique_cli.reviews.read_ahead import MOST_JOBS, ReadAhead, default_jobs
from pratique_cli.reviews.requests import PHASES, RequestShape
from pratique_cli.reviews.runs import ReviewRun
from pratique_cli.terminal import print_problem
from pratique_frontdoor.engines.engine import open_local
from pratique_frontdoor.engines.local import LocalEngine, LocalSources, read_chain

if TYPE_CHECKING:
    from pratique_cli.live_inputs import LiveInputs

REQUEST_PARAMETERS = (
    "operation",
    "subresource",
    "old",
    "namespace",
    "user",
    "group",
    "dry_run",
    "object_validation",
)
"""The parameters of the request flags, in the order of the help."""

_REQUEST_OPTIONS = (
    flag(
        "--operation",
        type=click.Choice(Operation, case_sensitive=False),
        metavar=f"[{'|'.join(Operation)}]",
        default=Operation.CREATE,
        show_default=True,
        help="The operation of the request. CONNECT needs --subresource.",
    ),
    flag(
        "--subresource",
        metavar="NAME",
        default="",
        help="The subresource of the request: status, scale, exec, eviction, token, …",
    ),
    flag(
        "--old",
        type=ExistingPath(),
        multiple=True,
        help="The stored objects before an UPDATE or DELETE: a file or a folder. Repeatable. Other objects come from"
        " what the run has admitted and from --cluster.",
    ),
    flag(
        "--namespace",
        metavar="NAME",
        help="Namespace of objects that name none; others must name this one.  [default: default]",
    ),
    flag(
        "--user",
        metavar="NAME",
        help=f"User of the request, as with kubectl --as.  [default: {KUBECTL_USER.username}]",
    ),
    flag("--group", metavar="NAME", multiple=True, help="A group of --user. Repeatable."),
    flag("--dry-run", is_flag=True, help="Make dry-run requests; later reviews do not see their objects."),
    flag(
        "--object-validation",
        type=click.Choice(OnOff, case_sensitive=False),
        metavar="[on|off]",
        default=OnOff.ON,
        show_default=True,
        help="Decode manifests strictly, fill in defaults, and validate, as the API server does.",
    ),
)


def request_flags(callback: Callable[..., Any]) -> Callable[..., Any]:
    """Add the flags to a command, which gets them as ``shape``: it makes a RequestShape for a cluster."""

    @functools.wraps(callback)
    def gather(**values: Any) -> Any:
        given = {name: values.pop(name) for name in REQUEST_PARAMETERS}
        return callback(shape=functools.partial(_request_shape, **given), **values)

    return functools.reduce(lambda command, add: add(command), reversed(_REQUEST_OPTIONS), gather)


def _request_shape(  # noqa: PLR0913 - one for each flag
    cluster: ObjectStore,
    *,
    operation: Operation,
    subresource: str,
    old: Sequence[Path],
    namespace: str | None,
    user: str | None,
    group: Sequence[str],
    dry_run: bool,
    object_validation: OnOff,
) -> RequestShape:
    """Make the shape of requests; the cluster's definitions give the kinds that ``--old`` may hold."""
    return RequestShape(
        operation=operation,
        subresource=subresource,
        old=load_old(old, cluster.resources, namespace) if old else None,
        namespace=namespace or None,
        user=_requesting_user(user, group),
        dry_run=dry_run,
        object_validation=object_validation is OnOff.ON,
    )


def _requesting_user(name: str | None, groups: Sequence[str]) -> UserInfo:
    if name:
        return impersonated_user(name, groups)
    if groups:
        raise click.UsageError("--group names the groups of --user: give --user, too")
    return KUBECTL_USER


_LARGEST_EXIT_CODE = 125
"""Shells use higher codes themselves: not executable, not found, ended by a signal."""


EPILOG = """\b
FILE is an AdmissionReview in JSON or YAML, a JSON Lines stream of them, any
Kubernetes manifest (reviewed as a CREATE, unless flags say otherwise), a
folder of .yaml, .yml and .json, or - for standard input, which is also read
if no FILE is given. Documents are
reviewed in order; later reviews see the objects admitted before, as with
kubectl apply -f. The Pods of Deployments and other workloads are reviewed,
too: a Deployment may be admitted while its Pods are denied.

\b
Examples:
  pratique review deployment.yaml
  pratique review --pod-security restricted deployment.yaml
  pratique review --config webhooks/ --cluster cluster/ manifests/
  helm template chart | pratique review
  pratique review --operation UPDATE --old before.yaml after.yaml
  pratique review --operation CONNECT --subresource exec --user jane pod.yaml
  pratique review -o jsonl reviews.jsonl | jq .status.message
  pratique review -o junit=admission.xml manifests/

\b
Exit codes: 0 every request admitted, 1 at least one denied, 2 wrong usage or
at least one unreadable document (the others are still reviewed), 3 the
program itself failed, or a review was not decided in time.
"""


SECTIONS = {
    "Request of a manifest (an AdmissionReview contains its own)": REQUEST_PARAMETERS,
    "Admission chain": CHAIN_PARAMETERS,
    "Settings of single controllers": plugin_parameters(),
}


@click.command("review", cls=SectionedCommand, sections=SECTIONS, epilog=EPILOG)
@click.argument("files", metavar="FILE...", type=ExistingPath(dash=True), nargs=-1)
@flag(
    "-f",
    "--filename",
    "named",
    type=ExistingPath(dash=True),
    multiple=True,
    help="The same as FILE, as kubectl has it. Repeatable.",
)
@flag(
    "-R", "--recursive", is_flag=True, help="Accepted for kubectl's sake: folders include their subfolders."
)
@exclude_flag
@flag(
    "--stdin-filename",
    metavar="NAME",
    help="The file that standard input is taken for in messages and reports.",
)
@flag(
    "--phase",
    type=click.Choice(list(PHASES)),
    default="admit",
    show_default=True,
    help="The phases of each request: mutating, validating, or both. Validating alone takes objects as mutated"
    " already: Pods with their serviceAccountName, for example.",
)
@outputs_flag
@flag(
    "--only",
    type=click.Choice(Selection, case_sensitive=False),
    metavar="[denied|warned|all]",
    default=Selection.ALL,
    show_default=True,
    help="Write only what is denied, or warned of.",
)
@flag(
    "-q",
    "--quiet",
    is_flag=True,
    help="In text and tables: leave out what is admitted without a warning, and the summary.",
)
@flag(
    "-v",
    "--verbose",
    count=True,
    help="In text: show steps and changes; twice: skipped steps, times and endpoints, too.",
)
@color_flag
@no_progress_flag
@flag("--blame", is_flag=True, help="Show which step set each changed or denied field.")
@flag(
    "--no-expand",
    is_flag=True,
    help="Do not review the Pods of Deployments and other workloads.",
)
@flag(
    "--crds",
    type=ExistingPath(),
    multiple=True,
    help="CustomResourceDefinitions: a file or a folder. Adds kinds; unlike --cluster, it does not say what else"
    " exists. Repeatable.",
)
@flag(
    "--assume",
    type=NameList(),
    multiple=True,
    metavar="A,B",
    help="With --cluster: namespaces or serviceaccounts exist though they are not listed, namespaces without labels,"
    " and of each the account default.",
)
@kubeconfig_flags
@authorizer_flag("With --kubeconfig, what says what users may do:")
@timeout_flag("each review")
@flag(
    "--warn-exit-code",
    type=WholeNumber(0, _LARGEST_EXIT_CODE),
    default=ExitCode.ADMITTED.value,
    help="Exit code if nothing was denied but there were warnings.",
)
@flag(
    "--jobs",
    type=WholeNumber(1, MOST_JOBS),
    metavar="N",
    help="Processes to use: one decides, the others read ahead if there is much YAML; 1 starts none."
    "  [default: one for each core, up to 4]",
)
@request_flags
@chain_flags
def command(  # noqa: PLR0913 - one for each flag
    files: tuple[Path, ...],
    chain: ChainSettings,
    shape: Callable[[ObjectStore], RequestShape],
    phase: str,
    outputs: tuple[OutputTarget, ...],
    *,
    named: tuple[Path, ...],
    exclude: tuple[tuple[str, ...], ...],
    stdin_filename: str | None,
    recursive: bool,
    only: Selection,
    quiet: bool,
    warn_exit_code: int,
    verbose: int,
    color: bool | None,
    no_progress: bool,
    blame: bool,
    no_expand: bool,
    crds: tuple[Path, ...],
    assume: tuple[tuple[str, ...], ...],
    kubeconfig: Path | None,
    context: str,
    authorizer: AuthorizerSource,
    timeout: float,
    jobs: int | None,
) -> int:
    """Review manifests and AdmissionReviews offline: what would the cluster decide, and why?"""
    del recursive  # folders always include their subfolders
    progress = _progress(outputs, only, shown=not (quiet or no_progress))
    style = OutputStyle(verbosity=verbose, colour=color, blame=blame, quiet=quiet)
    report_problem = functools.partial(print_problem, progress=progress)

    def make_run(engine: LocalEngine, store: ObjectStore) -> ReviewRun:
        return ReviewRun(
            engine=engine,
            on_admitted=engine.on_admitted,
            store=store,
            phases=PHASES[phase],
            timeout_seconds=timeout,
            output=SelectedOutput(
                [open_output(target, style) for target in _with_annotations(outputs)],
                only,
                progress.clear if _streams(outputs) and sys.stdout.isatty() else _nothing,
            ),
            report_problem=report_problem,
            shape=shape(store),
            progress=progress,
            warn_exit_code=warn_exit_code,
            release=chain.release,
            expand=not no_expand,
            reads_folders=any(map(holds_files, paths)),
        )

    if context and kubeconfig is None:
        raise click.UsageError("--context names a part of a kubeconfig: give --kubeconfig, too")
    if authorizer is AuthorizerSource.CLUSTER and kubeconfig is None:
        raise click.UsageError("--authorizer cluster asks a live cluster: give --kubeconfig, too")
    chain = dataclasses.replace(chain, kubeconfig=kubeconfig, context=context, authorizer=authorizer)
    live = None if kubeconfig is None else _live_inputs(chain, kubeconfig, context)
    # Other processes start to read while this one starts to be able to decide.
    paths, name, excluded = _paths_to_read((*files, *named)), stdin_filename or STDIN, flattened(exclude)
    with ReadAhead(
        paths, jobs or default_jobs(), report_problem, stdin_name=name, excluded=excluded
    ) as parts:
        known = () if live is None else tuple(live.objects)
        paths_of_cluster = chain.cluster if live is None else chain.cluster or ()
        assumed = _assumed(flattened(assume))
        store = load_cluster(paths_of_cluster, known, definitions=crds, assumed=assumed)
        notes = cluster_notes(chain, store, assumed or ()) if live is None else []
        controllers = read_chain(chain) if live is None else live.sources.chain
        notices = [f"warning: {notice}" for notice in controllers.notices(chain.release, store)]
        for warning in (*exclusion_notes(paths, excluded), *notes, *notices):
            report_problem(warning)
        inputs = read_parts(tell_progress(parts, paths, progress, excluded))
        sources = LocalSources.read(chain, controllers) if live is None else live.sources
        return asyncio.run(_review(inputs, chain, store, make_run, sources))


_AT_THE_END = frozenset({"table", "junit", "sarif", "policyreport", "openreports"})
"""The formats that show nothing before all decisions are made."""


def _streams(outputs: Sequence[OutputTarget]) -> bool:
    return outputs[0].file is None and outputs[0].format not in _AT_THE_END


def _nothing() -> None:
    """Have nothing to remove."""


def _progress(outputs: Sequence[OutputTarget], only: Selection, *, shown: bool) -> Progress:
    """Show progress where decisions do not: if they come at the end, go elsewhere, or few of them are written."""
    streams = _streams(outputs) and only is Selection.ALL
    return progress_for(sys.stderr if shown else None, sys.stdout, streams=streams)


def _live_inputs(chain: ChainSettings, kubeconfig: Path, context: str) -> LiveInputs:
    from pratique_cli.live_inputs import live_inputs  # noqa: PLC0415 - only with --kubeconfig

    return live_inputs(chain, kubeconfig, context)


def _assumed(resources: Sequence[str]) -> frozenset[str] | None:
    for resource in resources:
        if resource not in ASSUMABLE:
            problem = f"{resource!r} cannot be assumed to exist; there are {', '.join(sorted(ASSUMABLE))}"
            raise click.BadParameter(problem, param_hint="'--assume'")
    return frozenset(resources) or None


def _with_annotations(outputs: Sequence[OutputTarget]) -> Sequence[OutputTarget]:
    """Add annotations to text in a job of GitHub Actions, which reads them from any output of a step."""
    if os.environ.get("GITHUB_ACTIONS") == "true" and OutputTarget("text") in outputs:
        return (*outputs, OutputTarget("github"))
    return outputs


def _paths_to_read(given: Sequence[Path]) -> Sequence[Path]:
    """Read a pipe or a redirected file where none is given; a terminal would wait for what nobody knows to type."""
    if given:
        return given
    if sys.stdin is None or stat.S_ISCHR(os.fstat(sys.stdin.fileno()).st_mode):
        raise click.UsageError("Missing argument 'FILE...': name a file or a folder, or send a pipe.")
    return [Path(STDIN)]


async def _review(
    inputs: Iterable[Input],
    chain: ChainSettings,
    store: ObjectStore,
    make_run: Callable[[LocalEngine, ObjectStore], ReviewRun],
    sources: LocalSources,
) -> int:
    async with contextlib.AsyncExitStack() as stack:
        if chain.access_review_seconds is not None:
            from pratique_cli.live_inputs import asking_api_server  # noqa: PLC0415 - only with --authorizer cluster

            await stack.enter_async_context(asking_api_server(chain, store))
        engine = open_local(chain, store, sources, tells_places=True)
        stack.push_async_callback(engine.close)
        assumes_all = not chain.cluster and chain.kubeconfig is None
        for line in (
            *engine.without_effect(),
            *(label_notes(engine.parts.configurations) if assumes_all else ()),
        ):
            print_problem(line)
        return await make_run(engine, store).run(inputs)
