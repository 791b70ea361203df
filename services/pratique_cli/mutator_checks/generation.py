"""Generating objects.

Which kinds the mutators match, which words their configurations mention, and objects made from both, always the
same for the same seed.
"""

from __future__ import annotations

import contextlib
import tempfile
import types
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import msgspec

from pratique.admission.rules import Rule
from pratique.apimachinery import names
from pratique.apimachinery.errors import InputError, PratiqueError
from pratique.apimachinery.json_values import JSON, JSONObject, member
from pratique.apimachinery.kinds import GroupVersionKind, ResourceType
from pratique.apimachinery.patterns import pattern
from pratique.apimachinery.requests import Operation
from pratique.cluster.schemas import ListType, MapType, Scalar, Structure, Type, schema_of
from pratique.cluster.store import Cluster

if TYPE_CHECKING:
    from pratique_frontdoor.engines.mutator_sets import Mutator


_MAX_LENGTH = 63
"""The longest value of a label; longer strings are not names."""
_MAX_WORDS = 40
"""The most words of one kind, so that each occurs now and then among 100 objects."""
_QUOTED = pattern(r"'([^'\\\n]*)'|\"([^\"\\\n]*)\"")
_MEMBER = pattern(r"\.\??([A-Za-z_]\w*)")
_EXPRESSIONS = frozenset({"expression", "messageExpression", "valueExpression"})
_LABELS = (("metadata", "labels"), ("metadata", "annotations"))


class Vocabulary(msgspec.Struct, frozen=True):
    """The fields and values that configurations mention, sorted, so that the same input generates the same objects."""

    fields: frozenset[str] = frozenset()
    """The names of mentioned fields."""
    texts: tuple[str, ...] = ()
    """The values that expressions compare with or write."""
    by_field: dict[str, tuple[JSON, ...]] = msgspec.field(default_factory=dict)
    """The values of given objects, by the name of the field."""

    @property
    def keys(self) -> list[str]:
        """The words that are valid label keys."""
        return [text for text in self.texts if text and not names.check_qualified_name(text)][:_MAX_WORDS]

    @property
    def values(self) -> list[str]:
        """The words that are valid label values."""
        return [text for text in self.texts if not names.check_label_value(text)][:_MAX_WORDS]

    @property
    def names(self) -> list[str]:
        """The words that are valid names of containers and objects."""
        return [text for text in self.texts if not names.check_dns1123_label(text)][:_MAX_WORDS]


def gather_vocabulary(
    configurations: Iterable[JSON], objects: Iterable[JSON], handlers: Iterable[object]
) -> Vocabulary:
    """Collect the vocabulary of policies and webhook configurations, given objects, and controllers in Python."""
    fields: set[str] = set()
    texts: set[str] = set()
    by_field: dict[str, dict[str, JSON]] = {}
    for document in configurations:
        for field, value in _scalars(document, ""):
            if field in _EXPRESSIONS:
                fields |= set(_MEMBER.findall(value))
                texts |= set(_quoted(value))
        texts |= set(_selected(document))
    for constant in (constant for handler in handlers for constant in _constants(handler)):
        texts |= {constant, *_quoted(constant), *constant.strip("/").split("/")}
    for document in objects:
        for field, value in _scalars(document, ""):
            by_field.setdefault(field, {})[repr(value)] = value
            fields.add(field)
            texts |= {value} if isinstance(value, str) else set()
        texts |= {key for path in _LABELS for key in member(document, *path) or ()}
    fit = sorted(text for text in texts if len(text) <= _MAX_LENGTH)
    known = {
        field: tuple(values[key] for key in sorted(values)[:_MAX_WORDS]) for field, values in by_field.items()
    }
    return Vocabulary(frozenset(fields | set(fit)), tuple(fit), known)


def _quoted(text: str) -> Iterator[str]:
    """Yield the string literals of an expression, and the tokens of those that are JSON Pointers."""
    for single, double in _QUOTED.findall(text):
        quoted = single or double
        yield quoted
        if quoted.startswith("/"):
            yield from (step.replace("~1", "/").replace("~0", "~") for step in quoted[1:].split("/"))


def _selected(value: JSON) -> Iterator[str]:
    """Yield the keys and values of label selectors."""
    if isinstance(value, dict):
        labels = value.get("matchLabels")
        for key, text in labels.items() if isinstance(labels, dict) else ():
            yield from (str(key), str(text))
        expressions = value.get("matchExpressions")
        for element in expressions if isinstance(expressions, list) else ():
            yield from map(str, (member(element, "key"), *(member(element, "values") or ())))
        value = list(value.values())
    for element in value if isinstance(value, list) else ():
        yield from _selected(element)


def _scalars(value: JSON, field: str) -> Iterator[tuple[str, JSON]]:
    """Yield every scalar of a document with the name of its field."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _scalars(item, key)
    elif isinstance(value, list):
        for item in value:
            yield from _scalars(item, field)
    else:
        yield field, value


def _constants(handler: object) -> Iterator[str]:
    """Yield the string constants of a function, and of functions of its module that it calls."""
    waiting: list[object] = [handler]
    seen: set[int] = set()
    while waiting:
        value = waiting.pop()
        if id(value) in seen:
            continue
        seen.add(id(value))
        if isinstance(value, str):
            yield value
        elif isinstance(value, dict):
            waiting += [*value.keys(), *value.values()]
        elif isinstance(value, tuple | list | set | frozenset):
            waiting += value
        elif isinstance(value, types.CodeType):
            waiting += value.co_consts
        elif isinstance(value, types.FunctionType):
            waiting += _function_parts(value)
        elif isinstance(value, types.MethodType):
            waiting.append(value.__func__)


def _function_parts(function: types.FunctionType) -> list[object]:
    """The code of a function, its closure, and the globals of its module that it uses."""
    cells = [cell.cell_contents for cell in function.__closure__ or () if cell != types.CellType()]
    named = [function.__globals__.get(name) for name in function.__code__.co_names]
    own = [
        value
        for value in named
        if isinstance(value, str | tuple | dict)
        or (isinstance(value, types.FunctionType) and value.__module__ == function.__module__)
    ]
    return [function.__code__, *cells, *own]


_EXAMPLES = frozenset({"Pod", "Deployment", "ConfigMap"})
"""Examples for rules that match all kinds: a Pod, a workload, and a kind unrelated to Pods."""


class GeneratedKind(msgspec.Struct, frozen=True):
    """A kind to generate objects for, and the operation that mutators match."""

    kind: GroupVersionKind
    schema: Structure
    operation: Operation


def kinds_for(
    mutators: Sequence[Mutator], cluster: Cluster, given: Iterable[GroupVersionKind]
) -> list[GeneratedKind]:
    """The kinds that mutators name in their rules, or examples for rules that name none.

    If there are mutators that are not built-in, only their kinds count, because those are to be checked.
    """
    own = [mutator for mutator in mutators if not mutator.placed] or mutators
    rules = [rule for mutator in own for rule in mutator.rules]
    known = frozenset(given)
    generated: dict[GroupVersionKind, GeneratedKind] = {}
    for type_ in cluster.resources:
        if type_.subresource or type_.removed_in or not type_.served:
            continue
        wanted = list(_matching_rules(type_, rules, is_given=type_.kind in known))
        schema = schema_of(type_.kind, cluster) if wanted else None
        if schema is not None and _is_preferred(type_, generated, known):
            generated.setdefault(type_.kind, GeneratedKind(type_.kind, schema, _operation(wanted)))
    return list(generated.values())


def _is_preferred(
    type_: ResourceType, generated: Iterable[GroupVersionKind], known: frozenset[GroupVersionKind]
) -> bool:
    """Whether to generate this version: one version of a kind is enough, unless others are given."""
    same = ((other.group, other.kind) == (type_.kind.group, type_.kind.kind) for other in generated)
    return type_.kind in known or not any(same)


def _matching_rules(type_: ResourceType, rules: Iterable[Rule], *, is_given: bool) -> Iterator[Rule]:
    for rule in rules:
        resources = {name for name in rule.resources if "/" not in name or name == "*/*"}
        groups_fit = type_.resource.group in rule.api_groups or "*" in rule.api_groups
        versions_fit = type_.resource.version in rule.api_versions or "*" in rule.api_versions
        if not groups_fit or not versions_fit:
            continue
        is_named = type_.resource.resource in resources
        if is_named or (resources & {"*", "*/*"} and (is_given or type_.kind.kind in _EXAMPLES)):
            yield rule


def _operation(rules: Iterable[Rule]) -> Operation:
    operations = {operation for rule in rules for operation in rule.operations}
    if operations & {"*", Operation.CREATE.value} or Operation.UPDATE.value not in operations:
        return Operation.CREATE
    return Operation.UPDATE


_USUAL_FIELDS = frozenset({"metadata", "spec", "template"})
"""Fields that almost every object has, though schemas do not require them."""
_SMALLEST_SCALARS: dict[Scalar, JSON] = {
    Scalar.STRING: "a",
    Scalar.INTEGER: 1,
    Scalar.NUMBER: 1,
    Scalar.BOOLEAN: False,
}


def smallest(kind: GeneratedKind) -> JSONObject:
    """The smallest valid object of a kind."""
    needed: JSONObject = _smallest(kind.schema, "")
    named = {"apiVersion": kind.kind.api_version, "kind": kind.kind.kind, "metadata": {"name": "made"}}
    return named | {name: value for name, value in needed.items() if name not in named}


def _smallest(type_: Type, field: str) -> JSON:
    match type_:
        case Structure():
            needed = sorted(type_.required | (_USUAL_FIELDS & type_.fields.keys()))
            return {name: _smallest(type_.fields[name], name) for name in needed if name in type_.fields}
        case ListType():
            # The schema does not say that a Pod needs a container.
            return [_smallest(type_.items, field)] if field == "containers" else []
        case MapType() | Scalar.ANY:
            return {}
        case _:
            return _SMALLEST_SCALARS.get(type_, "1")


HYPOTHESIS_MISSING = (
    "pratique prove generates objects with Hypothesis, which is not installed: pip install 'pratique[prove]', or "
    "add it to an existing installation: pip install hypothesis"
)
"""The message if the extra ``prove`` is not installed."""


def generate_objects(
    kind: GeneratedKind, words: Vocabulary, *, seed: int, examples: int, visit: Callable[[JSONObject], None]
) -> None:
    """Generate objects of one kind, and call ``visit`` with each.

    Raises:
        PratiqueError: ``visit`` raised it, which ends the generation.
        InputError: Hypothesis is not installed.
    """
    # Importing Hypothesis takes a third of a second.
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
            # Hypothesis would treat the error as a failing example and repeat it.
            ended.append(error)

    with _temporary_hypothesis_home():
        show()
    if ended:
        raise ended[0]


@contextlib.contextmanager
def _temporary_hypothesis_home() -> Iterator[None]:
    """Keep Hypothesis from leaving its folder behind, which holds more than examples."""
    from hypothesis import configuration  # noqa: PLC0415 - as above

    before = configuration.storage_directory(intent_to_write=False).home_directory
    with tempfile.TemporaryDirectory() as folder:
        configuration.set_hypothesis_home_dir(folder)
        try:
            yield
        finally:
            configuration.set_hypothesis_home_dir(before)
