"""Python policies as Validating- and MutatingAdmissionPolicies. The source is only read, and never run or imported."""

from __future__ import annotations

import ast
import collections
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from pratique.admission.function_policies import mutator, validator
from pratique.admission.results import allow
from pratique.admission.rules import Rule, rule
from pratique.apimachinery.errors import InputError
from pratique.apimachinery.json_values import JSONObject
from pratique.apimachinery.patterns import pattern
from pratique.configuration.admissionregistration import GROUP
from pratique_cli.mutation_translation import MutationTranslator
from pratique_cli.policy_translation import BodyTranslator, UntranslatableError

_API_VERSION = f"{GROUP}/v1"
_GROUPS_WITHOUT_POLICIES = frozenset({"*", GROUP, "authentication.k8s.io", "authorization.k8s.io"})
"""No policy is asked about kinds of these.

Source: ``k8s.io/kubernetes/pkg/kubeapiserver/admission/exclusion/resources.go``, and for policies themselves
``k8s.io/apiserver/pkg/admission/plugin/policy/generic``.
"""
_BUILT_INS = frozenset({"any", "all", "isinstance", "len", "list"})
_NAMES = frozenset({"validator", "mutator", "rule", "member", "allow", "deny", "Edits"})
_OPTIONS = frozenset(
    {
        "summary",
        "default",
        "timeout_seconds",
        "namespace_selector",
        "object_selector",
        "match_conditions",
        "failure_policy",
    }
)
_MAX_SOURCE_BYTES = 1 << 20
_CAPITAL = pattern(r"(?<=[a-z0-9])(?=[A-Z])")


class NotExported(msgspec.Struct, frozen=True):
    """What cannot be exported."""

    where: str
    """Its file and line, or its name."""
    why: str

    def __str__(self) -> str:
        """Return both."""
        return f"{self.where}: {self.why}"


class PolicyExport(msgspec.Struct, frozen=True):
    """A policy and its binding."""

    object_name: str
    where: str
    documents: tuple[JSONObject, JSONObject]


def export_source(path: Path) -> Iterator[PolicyExport | NotExported]:
    """Export the policies of one Python file, in their order.

    Raises:
        InputError: the file cannot be read as Python.
    """
    module = _parse(path)
    unsure = _unsure_names(module)
    for node in ast.walk(module):
        where = f"{path}:{getattr(node, 'lineno', 1)}"
        if isinstance(node, ast.Call) and _called(node) == "Controller":
            yield NotExported(where, "a Controller's decision is made by the callables that it builds")
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            continue
        names = {_called(decorator) for decorator in node.decorator_list}
        if not names & {"validator", "mutator"}:
            continue
        try:
            yield _export(node, unsure, where, in_module=node in module.body)
        except UntranslatableError as error:
            yield NotExported(f"{path}:{error.line}", f"{node.name}: {error}")
        except RecursionError:
            yield NotExported(where, f"{node.name}: its expressions are nested too deeply")


def _parse(path: Path) -> ast.Module:
    try:
        with path.open("rb") as file:
            source = file.read(_MAX_SOURCE_BYTES + 1)
        if len(source) > _MAX_SOURCE_BYTES:
            raise InputError(f"{path}: a policy's file has at most 1 MiB", file=str(path))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what Python says about the style of the source is not ours
            return ast.parse(source, str(path))
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}", file=str(path)) from None
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        line = f", line {error.lineno}" if isinstance(error, SyntaxError) and error.lineno else ""
        raise InputError(f"{path}{line}: is not Python that can be read", file=str(path)) from None


def _called(node: ast.AST) -> str:
    """The name of a decorator or of what is called, with or without a module before it."""
    function = node.func if isinstance(node, ast.Call) else node
    if isinstance(function, ast.Attribute):
        return function.attr
    return function.id if isinstance(function, ast.Name) else ""


def _unsure_names(module: ast.Module) -> frozenset[str]:
    """The names of Pratique and of Python that may mean something else in this file."""
    imported = {
        alias.name
        for statement in module.body
        if isinstance(statement, ast.ImportFrom) and statement.module == "pratique" and not statement.level
        for alias in statement.names
        if alias.asname in {None, alias.name}
    }
    bound = collections.Counter(name for node in ast.walk(module) for name in _bound_names(node))
    if "*" in bound:
        return _NAMES | _BUILT_INS
    wrong = {name for name in _NAMES if name not in imported or bound[name] > 1}
    functions = {name for name, count in bound.items() if count > 1}
    return frozenset(wrong | {name for name in _BUILT_INS if bound[name]} | functions)


def _bound_names(node: ast.AST) -> Iterator[str]:
    match node:
        case ast.Name(id=name, ctx=ast.Store() | ast.Del()):
            yield name
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            yield name
        case ast.arg(arg=name):
            yield name
        case ast.alias(name=name, asname=alias):
            yield (alias or name).partition(".")[0]
        case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
            yield name
        case ast.MatchMapping(rest=str(name)):
            yield name


def _export(
    node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef,
    unsure: frozenset[str],
    where: str,
    *,
    in_module: bool,
) -> PolicyExport:
    decorator = node.decorator_list[0]
    if not isinstance(node, ast.FunctionDef) or not in_module:
        raise UntranslatableError(
            node, "only plain functions of a module can be exported: no class, async or inner one"
        )
    match decorator:
        case ast.Call(func=ast.Name(id="validator" | "mutator" as kind)) if len(node.decorator_list) == 1:
            pass
        case _:
            raise UntranslatableError(
                node, "the only decorator must be @validator(…) or @mutator(…), imported from pratique"
            )
    if node.name in unsure:
        raise UntranslatableError(node, f"the name {node.name} is used for something else, too")
    for part in ast.walk(node):
        if (
            isinstance(part, ast.Name)
            and isinstance(part.ctx, ast.Load)
            and part.id in unsure & (_NAMES | _BUILT_INS)
        ):
            text = (
                f"{part.id} may not be Pratique's or Python's own: import it from pratique by its name, once"
            )
            raise UntranslatableError(part, text)
    name, rules, options = _arguments(decorator, kind)
    object_name = _CAPITAL.sub("-", name).lower().replace("_", "-")
    if kind == "mutator":
        return PolicyExport(object_name, where, _mutating_documents(node, object_name, rules, options))
    translator = BodyTranslator(_parameter(node))
    translator.translate(node.body)
    if not translator.denials:
        raise UntranslatableError(node, "it denies nothing, and a policy needs a validation")
    return PolicyExport(object_name, where, _documents(object_name, rules, options, translator))


def _parameter(node: ast.FunctionDef) -> str:
    match node.args:
        case ast.arguments(posonlyargs=[], args=[only], vararg=None, kwonlyargs=[], kwarg=None, defaults=[]):
            return only.arg
    raise UntranslatableError(node, "only a function of the review alone can be exported")


def _arguments(decorator: ast.Call, kind: str) -> tuple[str, tuple[Rule, ...], dict[str, Any]]:
    """The name, the rules and the options, checked as the decorator checks them."""
    name = _literal(decorator.args[0]) if decorator.args else ""
    rules = tuple(map(_rule, decorator.args[1:]))
    options: dict[str, Any] = {}
    for keyword in decorator.keywords:
        if keyword.arg not in _OPTIONS:
            raise UntranslatableError(keyword.value, f"a policy has nothing like {keyword.arg or '**'}")
        options[keyword.arg] = _literal(keyword.value)
    try:
        make = mutator if kind == "mutator" else validator
        make(name, *rules, **options)(lambda _: allow())
        conditions = dict(options.get("match_conditions", {}))
    except (ValueError, TypeError) as error:
        raise UntranslatableError(decorator, str(error)) from None
    if not isinstance(name, str) or not all(isinstance(text, str) for text in conditions.values()):
        raise UntranslatableError(decorator, "names and expressions are texts")
    if not rules or any(_GROUPS_WITHOUT_POLICIES & set(found.api_groups) for found in rules):
        text = "Kubernetes asks no policy about policies and access reviews; name other groups in rules"
        raise UntranslatableError(decorator, text)
    return name, rules, options


def _rule(node: ast.expr) -> Rule:
    match node:
        case ast.Call(func=ast.Name(id="rule"), args=resources, keywords=keywords):
            given = {keyword.arg or "**": _literal(keyword.value) for keyword in keywords}
            try:
                return rule(*map(_literal, resources), **given)
            except (ValueError, TypeError, AttributeError) as error:
                raise UntranslatableError(node, str(error)) from None
    raise UntranslatableError(node, 'only rules written as rule("pods") can be exported')


def _literal(node: ast.expr) -> Any:
    try:
        return ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
        raise UntranslatableError(node, "only literals can be read without running the file") from None


def _spec(rules: tuple[Rule, ...], options: dict[str, Any], variables: dict[str, str]) -> JSONObject:
    constraints: JSONObject = {
        "matchPolicy": "Exact",  # a controller is asked about what its rules name
        "resourceRules": [msgspec.to_builtins(found) for found in rules],
    }
    for option, field in (("namespace_selector", "namespaceSelector"), ("object_selector", "objectSelector")):
        if options.get(option) is not None:
            constraints[field] = options[option]
    spec: JSONObject = {
        "failurePolicy": options.get("failure_policy", "Fail"),
        "matchConstraints": constraints,
    }
    if conditions := options.get("match_conditions"):
        spec["matchConditions"] = [{"name": key, "expression": text} for key, text in conditions.items()]
    if variables:
        spec["variables"] = [{"name": key, "expression": text} for key, text in variables.items()]
    return spec


def _mutating_documents(
    node: ast.FunctionDef, object_name: str, rules: tuple[Rule, ...], options: dict[str, Any]
) -> tuple[JSONObject, JSONObject]:
    decorator = node.decorator_list[0]
    if any(not {"CREATE", "UPDATE"}.issuperset(found.operations) for found in rules):
        raise UntranslatableError(
            decorator, "a mutator is exported for CREATE and UPDATE alone: others have no object"
        )
    if options.get("failure_policy") == "Ignore":
        text = "with Ignore, a MutatingAdmissionPolicy lets through what Edits refuses: an object of another shape"
        raise UntranslatableError(decorator, text)
    translator = MutationTranslator(_parameter(node))
    translator.translate(node.body)
    if not translator.edits:
        raise UntranslatableError(node, "it changes nothing, and a policy needs a mutation")
    spec = _spec(rules, options, translator.variables)
    # IfNeeded runs a policy again after its own change, which is not how Pratique calls a mutator again.
    spec["reinvocationPolicy"] = "Never"
    spec["mutations"] = [{"patchType": "JSONPatch", "jsonPatch": {"expression": translator.expression()}}]
    metadata: JSONObject = {"name": object_name}
    policy: JSONObject = {"kind": "MutatingAdmissionPolicy", "metadata": metadata, "spec": spec}
    binding: JSONObject = {
        "kind": "MutatingAdmissionPolicyBinding",
        "metadata": {"name": object_name},
        "spec": {"policyName": object_name},
    }
    return {"apiVersion": _API_VERSION, **policy}, {"apiVersion": _API_VERSION, **binding}


def _documents(
    object_name: str, rules: tuple[Rule, ...], options: dict[str, Any], body: BodyTranslator
) -> tuple[JSONObject, JSONObject]:
    spec = _spec(rules, options, body.variables)
    spec["validations"] = [
        {"expression": f"!({denial.condition})", "message": denial.message, "reason": "Forbidden"}
        for denial in body.denials
    ]
    policy: JSONObject = {
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": object_name},
        "spec": spec,
    }
    binding: JSONObject = {
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": object_name},
        "spec": {"policyName": object_name, "validationActions": ["Deny"]},
    }
    return {"apiVersion": _API_VERSION, **policy}, {"apiVersion": _API_VERSION, **binding}
