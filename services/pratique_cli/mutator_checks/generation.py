"""Generating objects: which kinds the mutators match, which words their configurations mention, and objects made from both, always the same for the same seed."""

from __future__ import annotations

import contextlib
import dataclasses
import re
import tempfile
import types
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from pratique.admission.rules import Rule
from pratique.apimachinery import names
from pratique.apimachinery.errors import InputError, PratiqueError
from pratique.apimachinery.json_values import JSON, JSONObject, member
from pratique.apimachinery.kinds import GroupVersionKind, ResourceType
from pratique.apimachinery.requests import Operation
from pratique.cluster.schemas import ListType, MapType, Scalar, Structure, Type, schema_of
from pratique.cluster.store import Cluster

if TYPE_CHECKING:
    from pratique_frontdoor.engines.mutator_sets import Mutator


_MAX_LENGTH = 63
"""Characters of a label's value; what is longer is no name of anything."""
_MAX_WORDS = 40
"""Texts of one kind: each is to come up now and then among a hundred objects."""
_QUOTED = re.compile(r"'([^'\\\n]*)'|\"([^\"\\\n]*)\"")
_MEMBER = re.compile(r"\.\??([A-Za-z_]\w*)")
_EXPRESSIONS = frozenset({"expression", "messageExpression", "valueExpression"})
_LABELS = (("metadata", "labels"), ("metadata", "annotations"))


@dataclasses.dataclass(frozen=True, slots=True)
class Vocabulary:
    """What is spoken of, sorted, so that the same input makes the same objects."""

    fields: frozenset[str] = frozenset()
    """Names of members that somebody looks at."""
    texts: tuple[str, ...] = ()
    """Values that somebody compares with, or writes."""
    by_field: dict[str, tuple[JSON, ...]] = dataclasses.field(default_factory=dict)
    """What given objects have in a member of that name."""

    @property
    def keys(self) -> list[str]:
        """What can be the key of a label."""
        return [text for text in self.texts if text and not names.check_qualified_name(text)][:_MAX_WORDS]

    @property
    def values(self) -> list[str]:
        """What can be the value of a label."""
        return [text for text in self.texts if not names.check_label_value(text)][:_MAX_WORDS]

    @property
    def names(self) -> list[str]:
        """What can be the name of a container or an object."""
        return [text for text in self.texts if not names.check_dns1123_label(text)][:_MAX_WORDS]


def gather_vocabulary(
    configurations: Iterable[JSON], objects: Iterable[JSON], handlers: Iterable[object]
) -> Vocabulary:
    """Gather what policies and webhook configurations, given objects and controllers written in Python speak of."""
    fields: set[str] = set()
    texts: set[str] = set()
    by_field: dict[str, dict[str, JSON]] = {}
    for each in configurations:
        for field, value in _scalars(each, ""):
            if field in _EXPRESSIONS:
                fields |= set(_MEMBER.findall(value))
                texts |= set(_quoted(value))
        texts |= set(_selected(each))
    for constant in (constant for handler in handlers for constant in _constants(handler)):
        texts |= {constant, *_quoted(constant), *constant.strip("/").split("/")}
    for each in objects:
        for field, value in _scalars(each, ""):
            by_field.setdefault(field, {})[repr(value)] = value
            fields.add(field)
            texts |= {value} if isinstance(value, str) else set()
        texts |= {key for path in _LABELS for key in member(each, *path) or ()}
    fit = sorted(text for text in texts if len(text) <= _MAX_LENGTH)
    known = {
        field: tuple(values[key] for key in sorted(values)[:_MAX_WORDS]) for field, values in by_field.items()
    }
    return Vocabulary(frozenset(fields | set(fit)), tuple(fit), known)


def _quoted(text: str) -> Iterator[str]:
    """What an expression quotes, and the steps of a JSON Pointer in it."""
    for single, double in _QUOTED.findall(text):
        quoted = single or double
        yield quoted
        if quoted.startswith("/"):
            yield from (step.replace("~1", "/").replace("~0", "~") for step in quoted[1:].split("/"))


def _selected(value: JSON) -> Iterator[str]:
    """The keys and values of label selectors."""
    if isinstance(value, dict):
        labels = value.get("matchLabels")
        for key, text in labels.items() if isinstance(labels, dict) else ():
            yield from (str(key), str(text))
        expressions = value.get("matchExpressions")
        for each in expressions if isinstance(expressions, list) else ():
            yield from map(str, (member(each, "key"), *(member(each, "values") or ())))
        value = list(value.values())
    for each in value if isinstance(value, list) else ():
        yield from _selected(each)


def _scalars(value: JSON, field: str) -> Iterator[tuple[str, JSON]]:
    """Every single value of a document, by the name of the member that it is in."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _scalars(item, key)
    elif isinstance(value, list):
        for item in value:
            yield from _scalars(item, field)
    else:
        yield field, value


def _constants(handler: object) -> Iterator[str]:
    """The texts in a function and in those that it calls in its own module."""
    waiting: list[object] = [handler]
    seen: set[int] = set()
    while waiting:
        each = waiting.pop()
        if id(each) in seen:
            continue
        seen.add(id(each))
        if isinstance(each, str):
            yield each
        elif isinstance(each, dict):
            waiting += [*each.keys(), *each.values()]
        elif isinstance(each, tuple | list | set | frozenset):
            waiting += each
        elif isinstance(each, types.CodeType):
            waiting += each.co_consts
        elif isinstance(each, types.FunctionType):
            waiting += _function_parts(each)
        elif isinstance(each, types.MethodType):
            waiting.append(each.__func__)


def _function_parts(function: types.FunctionType) -> list[object]:
    """Its code, what it closes over, and what it names of its own module."""
    cells = [cell.cell_contents for cell in function.__closure__ or () if cell != types.CellType()]
    named = [function.__globals__.get(name) for name in function.__code__.co_names]
    own = [
        each
        for each in named
        if isinstance(each, str | tuple | dict)
        or (isinstance(each, types.FunctionType) and each.__module__ == function.__module__)
    ]
    return [function.__code__, *cells, *own]


_EXAMPLES = frozenset({"Pod", "Deployment", "ConfigMap"})
"""What stands for all kinds where a rule names none: a Pod, what makes Pods, and what has nothing to do with them."""


@dataclasses.dataclass(frozen=True, slots=True)
class GeneratedKind:
    """A kind of which objects are made up, and the operation that mutators want to see."""

    kind: GroupVersionKind
    schema: Structure
    operation: Operation


def kinds_for(
    mutators: Sequence[Mutator], cluster: Cluster, given: Iterable[GroupVersionKind]
) -> list[GeneratedKind]:
    """The kinds that mutators name in their rules, and some where they name none.

    Where some mutators are not Pratique's own, their kinds count alone: it is those that are to be proved.
    """
    own = [one for one in mutators if not one.placed] or mutators
    rules = [rule for one in own for rule in one.rules]
    known = frozenset(given)
    made: dict[GroupVersionKind, GeneratedKind] = {}
    for each in cluster.resources:
        if each.subresource or each.removed_in or not each.served:
            continue
        wanted = list(_matching_rules(each, rules, is_given=each.kind in known))
        schema = schema_of(each.kind, cluster) if wanted else None
        if schema is not None and _is_preferred(each, made, known):
            made.setdefault(each.kind, GeneratedKind(each.kind, schema, _operation(wanted)))
    return list(made.values())


def _is_preferred(
    each: ResourceType, made: Iterable[GroupVersionKind], known: frozenset[GroupVersionKind]
) -> bool:
    """One version of a kind is enough, unless others are given."""
    same = ((other.group, other.kind) == (each.kind.group, each.kind.kind) for other in made)
    return each.kind in known or not any(same)


def _matching_rules(each: ResourceType, rules: Iterable[Rule], *, is_given: bool) -> Iterator[Rule]:
    for rule in rules:
        resources = {name for name in rule.resources if "/" not in name or name == "*/*"}
        groups_fit = each.resource.group in rule.api_groups or "*" in rule.api_groups
        versions_fit = each.resource.version in rule.api_versions or "*" in rule.api_versions
        if not groups_fit or not versions_fit:
            continue
        is_named = each.resource.resource in resources
        if is_named or (resources & {"*", "*/*"} and (is_given or each.kind.kind in _EXAMPLES)):
            yield rule


def _operation(rules: Iterable[Rule]) -> Operation:
    operations = {operation for rule in rules for operation in rule.operations}
    if operations & {"*", Operation.CREATE.value} or Operation.UPDATE.value not in operations:
        return Operation.CREATE
    return Operation.UPDATE


_USUAL_FIELDS = frozenset({"metadata", "spec", "template"})
"""What an object is hardly one without, though schemas do not ask for it."""
_SMALLEST_SCALARS: dict[Scalar, JSON] = {
    Scalar.STRING: "a",
    Scalar.INTEGER: 1,
    Scalar.NUMBER: 1,
    Scalar.BOOLEAN: False,
}


def smallest(kind: GeneratedKind) -> JSONObject:
    """What an object of a kind has to have, and nothing else."""
    needed: JSONObject = _smallest(kind.schema, "")
    named = {"apiVersion": kind.kind.api_version, "kind": kind.kind.kind, "metadata": {"name": "made"}}
    return named | {name: value for name, value in needed.items() if name not in named}


def _smallest(type_: Type, field: str) -> JSON:
    match type_:
        case Structure():
            needed = sorted(type_.required | (_USUAL_FIELDS & type_.fields.keys()))
            return {name: _smallest(type_.fields[name], name) for name in needed if name in type_.fields}
        case ListType():
            # A schema does not say that a Pod has to have a container.
            return [_smallest(type_.items, field)] if field == "containers" else []
        case MapType() | Scalar.ANY:
            return {}
        case _:
            return _SMALLEST_SCALARS.get(type_, "1")


HYPOTHESIS_MISSING = (
    "pratique prove makes objects up with Hypothesis, which is not installed: pip install 'pratique[prove]', or "
    "pip install hypothesis beside a pratique that is there"
)
"""What is said where the extra ``prove`` was not installed."""


def generate_objects(
    kind: GeneratedKind, words: Vocabulary, *, seed: int, examples: int, visit: Callable[[JSONObject], None]
) -> None:
    """Make up objects of one kind, and show each to ``visit``.

    Raises:
        PratiqueError: ``visit`` raised it; no further object was shown.
        InputError: Hypothesis is not installed.
    """
    # A third of a second of imports that only those wait for who make objects up.
    try:
        import hypothesis  # noqa: PLC0415
    except ModuleNotFoundError:
        raise InputError(HYPOTHESIS_MISSING) from None

    from pratique_cli.mutator_checks.strategies import generated_objects  # noqa: PLC0415

    ended: list[PratiqueError] = []

    @hypothesis.seed(seed)
    @hypothesis.settings(
        max_examples=examples,
        database=None,
        deadline=None,
        phases=[hypothesis.Phase.generate],
        suppress_health_check=list(hypothesis.HealthCheck),
        print_blob=False,
    )
    @hypothesis.given(generated_objects(kind, words))
    def show(document: JSONObject) -> None:
        if ended:
            return
        try:
            visit(document)
        except PratiqueError as error:
            # Hypothesis would take an error for a finding, and ask again.
            ended.append(error)

    with _temporary_hypothesis_home():
        show()
    if ended:
        raise ended[0]


@contextlib.contextmanager
def _temporary_hypothesis_home() -> Iterator[None]:
    """Keep Hypothesis from leaving a folder behind: it stores more than examples."""
    from hypothesis import configuration  # noqa: PLC0415 - as above

    before = configuration.storage_directory(intent_to_write=False).home_directory
    with tempfile.TemporaryDirectory() as folder:
        configuration.set_hypothesis_home_dir(folder)
        try:
            yield
        finally:
            configuration.set_hypothesis_home_dir(before)
