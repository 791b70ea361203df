"""Loading everything that a chain needs, to report all problems before anything runs."""

from __future__ import annotations

import contextlib
import itertools
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import msgspec

from pratique.apimachinery.documents import read_objects
from pratique.apimachinery.errors import ConfigurationError, InputError
from pratique.apimachinery.json_values import JSON, json_type
from pratique.apimachinery.manifest_files import holds_files, is_excluded, walk
from pratique.apimachinery.patterns import pattern
from pratique.apimachinery.selectors import EXISTS, IN, LabelSelector
from pratique.apimachinery.source_documents import SourceDocument, display_path
from pratique.cluster.files import load_cluster
from pratique.cluster.store import NAME_LABEL, Cluster
from pratique.configuration.admissionregistration import PolicyConfiguration, ValidatingAdmissionPolicySpec
from pratique.configuration.loading import Configurations, is_configuration, load_configurations
from pratique.configuration.settings import ChainSettings
from pratique_frontdoor.engines.engine import ChainSources

if TYPE_CHECKING:
    from pratique.lint.rules import LintFinding

T = TypeVar("T")

NAMESPACES = "namespaces"
"""The resource."""
_STEP = pattern(r"(\w+)|\[(\d+)\]")
"""A step of a field's path, such as ``validations`` or ``[0]``."""


class LoadedChain(msgspec.Struct, frozen=True):
    """The configurations and the cluster of a chain, as far as they could be loaded."""

    chain: ChainSettings
    problems: list[str]
    """The problems, one line each."""
    configurations: Configurations | None
    cluster: Cluster | None
    left_out: Mapping[str, int] = msgspec.field(default_factory=dict)
    """Objects that lie beside the configurations and are none, counted by kind."""
    sources: ChainSources | None = None
    """The controllers of the chain, as far as their settings could be read."""
    unreadable: bool = False
    """Whether files of folders are among the problems, because they cannot be read or hold no objects."""

    def warnings(self) -> list[str]:
        """List type errors in policies, settings without effect, and what the release has dropped or does not read.

        The details of a type error follow its location, one per line.
        """
        if self.configurations is None or self.cluster is None:
            return []
        type_warnings = [
            text
            for policy in self.configurations.validating_policies
            for text in _type_warnings(policy, self.cluster)
        ]
        if self.problems or self.sources is None:
            return type_warnings
        notices = self.sources.notices(self.chain.release, self.cluster)
        file, ineffective = self.sources.file, self.sources.ineffective_controllers(self.cluster)
        idle = [f"{file}: {text}" if file else text for text in ineffective]
        return [*idle, *type_warnings, *(f"warning: {notice}" for notice in notices)]

    def findings(self, rules: Collection[str]) -> list[LintFinding]:
        """Find violations of the rules with these names."""
        if self.configurations is None or self.cluster is None:
            return []
        from pratique.lint.registry import find_violations  # noqa: PLC0415 - only `check` asks
        from pratique_frontdoor.engines.outage_simulation import OutageSimulation  # noqa: PLC0415 - likewise

        # Problems with the settings of controllers are reported already, and do not concern webhooks.
        chain = ChainSettings() if self.problems else self.chain
        with OutageSimulation(chain, self.configurations, self.cluster) as trial:
            return find_violations(self.configurations, self.cluster, trial, rules=rules)


def load_chain(
    chain: ChainSettings,
    paths: Sequence[Path] = (),
    excluded: Sequence[str] = (),
    *,
    required: bool = True,
) -> LoadedChain:
    """Load everything that the settings name, and the configurations of ``paths``; problems are collected.

    ``paths`` may hold other objects besides, such as the manifests of a repository, and their folders files that hold
    no objects. What matches a pattern of ``excluded`` is left out of folders. It is a problem if a path holds no
    configuration, unless it is not ``required`` to.
    """
    problems: list[str] = []
    left_out: Counter[str] = Counter()
    documents = [
        document
        for path in paths
        for document in _configurations_of(path, problems, left_out, excluded, required=required)
    ]
    unreadable = bool(problems) and any(map(holds_files, paths))
    configurations = _attempt(lambda: load_configurations(chain.config, documents), problems)
    cluster = _attempt(lambda: load_cluster(chain.cluster), problems)
    sources = _attempt(lambda: _load_controllers(chain), problems)
    return LoadedChain(chain, problems, configurations, cluster, left_out, sources, unreadable)


def load_found(paths: Iterable[Path], *, required: bool = True) -> tuple[Configurations, Counter[str]]:
    """Load the configurations of paths, and count by kind what else lies there.

    Raises:
        ConfigurationError: something cannot be read, a configuration is invalid, or a path holds none if it is
            ``required`` to.
    """
    problems: list[str] = []
    left_out: Counter[str] = Counter()
    documents = [
        document
        for path in paths
        for document in _configurations_of(path, problems, left_out, required=required)
    ]
    if problems:
        raise ConfigurationError("\n".join(problems))
    return load_configurations((), documents), left_out


def left_out_notes(left_out: Mapping[str, int]) -> list[str]:
    """Tell what lies beside configurations, if anything."""
    return [f"note: left out what is no configuration: {told_kinds(left_out)}"] if left_out else []


def _configurations_of(
    path: Path,
    problems: list[str],
    left_out: Counter[str],
    excluded: Sequence[str] = (),
    *,
    required: bool = True,
) -> Iterator[SourceDocument]:
    others: Counter[str] = Counter()

    def leave_out(data: JSON) -> bool:
        """Leave out what is no object, if it holds no configuration that somebody wrote in the wrong form."""
        if isinstance(data, list) and any(is_configuration(item) for item in data if isinstance(item, dict)):
            return False
        others[json_type(data).removeprefix("a ")] += 1
        return True

    found = list(read_objects([path], problems, unique_keys=True, excluded=excluded, leave_out=leave_out))

    def is_wanted(document: SourceDocument) -> bool:
        """Tell configurations; settings lie beside the policy in a package of ``new policy``, and mislead alone."""
        is_beside = path.is_dir() and _kind(document) == "AdmissionConfiguration"
        return is_configuration(document.data) and not is_beside

    others.update(_kind(document) for document in found if not is_wanted(document))
    configurations = list(filter(is_wanted, found))
    if required and others and not configurations:
        kinds = told_kinds(others)
        problems.append(
            f"{display_path(str(path))}: holds no webhook configuration and no policy, but {kinds}"
        )
        return
    left_out.update(others)
    yield from configurations


EXCLUDE_HINT = "note: if a file in a folder is not for Kubernetes, leave it out: --exclude NAME"
"""What to say if something in a folder cannot be read."""


def exclusion_notes(paths: Iterable[Path], excluded: Sequence[str]) -> Iterator[str]:
    """Tell how many files of folders are left out by patterns, and which patterns leave out none."""
    if not excluded:
        return
    folders = [path for path in paths if path.is_dir()]
    found = [patterns for folder in folders for patterns in _matching_patterns(folder, excluded)]
    left = sum(map(bool, found))
    if left:
        yield f"note: left out by --exclude: {left} {'file' if left == 1 else 'files'}"
    used = set(itertools.chain.from_iterable(found))
    for excluding in dict.fromkeys(excluded):
        if excluding not in used:
            yield f"note: --exclude {excluding} matches no file of a folder"


def _matching_patterns(folder: Path, excluded: Sequence[str]) -> Iterator[list[str]]:
    """Yield for each file of a folder the patterns that match it or a subfolder that it is in."""
    with contextlib.suppress(OSError):  # reading tells the problem
        for file, is_folder in walk(folder):
            if not is_folder:
                path = file.relative_to(folder)
                steps = (path, *path.parents)
                yield [pattern for pattern in excluded if any(is_excluded(step, [pattern]) for step in steps)]


def _kind(document: SourceDocument) -> str:
    kind = document.data.get("kind")
    return kind if isinstance(kind, str) and kind else _UNKNOWN_KIND


_UNKNOWN_KIND, _UNKNOWN_KINDS = "object without a kind", "objects without a kind"


def told_kinds(counts: Mapping[str, int]) -> str:
    """Tell how many objects there are of each kind, most first: ``8 Pod, 2 Service``."""
    return ", ".join(
        f"{count} {_UNKNOWN_KINDS if kind == _UNKNOWN_KIND and count > 1 else kind}"
        for kind, count in Counter(counts).most_common()
    )


def cluster_notes(chain: ChainSettings, cluster: Cluster, assumed: Collection[str]) -> list[str]:
    """Tell that the files of ``--cluster`` hold no Namespace, if so: then no request in a namespace is admitted."""
    if not chain.cluster or NAMESPACES in assumed or cluster.list("", NAMESPACES):
        return []
    advice = f"add Namespaces, or --assume {NAMESPACES}; to add kinds alone, use --crds instead"
    return [f"note: --cluster holds no Namespace, so there is none, and what is in one is denied: {advice}"]


def label_notes(configurations: Configurations) -> list[str]:
    """Tell which webhooks, policies and bindings want labels that assumed namespaces do not have."""
    names = [*_webhooks_by_label(configurations), *_policies_by_label(configurations)]
    if not names:
        return []
    shown = ", ".join(names[:_MOST_NAMES]) + (" …" if len(names) > _MOST_NAMES else "")
    known = f"without --cluster, a namespace has no label but {NAME_LABEL}, unless this run creates it"
    return [f"note: {known}; more is wanted by the namespaceSelector of {shown}"]


_MOST_NAMES = 5
"""Names in a note: who has more reads the first ones, and their own selectors."""


def _webhooks_by_label(configurations: Configurations) -> Iterator[str]:
    for configuration in (*configurations.mutating, *configurations.validating):
        for webhook in configuration.webhooks:
            if _wants_label(webhook.namespace_selector):
                yield f'webhook "{webhook.name}"'


def _policies_by_label(configurations: Configurations) -> Iterator[str]:
    for policy in (*configurations.mutating_policies, *configurations.validating_policies):
        if policy.spec.match_constraints and _wants_label(policy.spec.match_constraints.namespace_selector):
            yield f'{policy.kind.value} "{policy.name}"'
    for binding in (*configurations.mutating_bindings, *configurations.validating_bindings):
        if binding.spec.match_resources and _wants_label(binding.spec.match_resources.namespace_selector):
            yield f'{binding.kind.value} "{binding.name}"'


def _wants_label(selector: LabelSelector | None) -> bool:
    """Whether a selector requires a label besides the name, which every namespace has."""
    if selector is None:
        return False
    wanted = [item.key for item in selector.match_expressions if item.operator in (EXISTS, IN)]
    return any(key != NAME_LABEL for key in (*selector.match_labels, *wanted))


def _attempt(load: Callable[[], T], problems: list[str]) -> T | None:
    try:
        return load()
    except InputError as error:
        problems += error.problems
        return None


def _type_warnings(policy: PolicyConfiguration[ValidatingAdmissionPolicySpec], cluster: Cluster) -> list[str]:
    from pratique.policies.type_checking import check_types  # noqa: PLC0415 - brings CEL

    found: list[str] = []
    for warning in check_types(policy, cluster):
        head = f'warning: policy "{policy.name}": {warning.field_ref}:'
        if policy.source is not None:
            steps = [name or int(index) for name, index in _STEP.findall(warning.field_ref)]
            head = str(policy.source.fault(steps, head))
        below = [f"    {line}" for line in warning.warning.splitlines() if line]
        found.append("\n".join([head, *below]))
    return found


def check_chain(chain: ChainSettings) -> None:
    """Check that a chain can be made from the settings.

    Raises:
        ConfigurationError: it cannot; one line for each reason.
    """
    problems = load_chain(chain).problems
    if problems:
        raise ConfigurationError("\n".join(problems))


def _load_controllers(chain: ChainSettings) -> ChainSources:
    sources = ChainSources.read(chain)
    sources.configure(sources.selected)
    sources.credentials()
    return sources
