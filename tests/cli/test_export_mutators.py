"""``pratique export``: Python mutators as MutatingAdmissionPolicies, which make the same objects."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pratique_cli.policy_exports import NotExported, export_source
from support.exported_chains import ExportedChains, exported_chains

Program: TypeAlias = "Callable[..., subprocess.CompletedProcess[str]]"

HEAD = "from pratique import Answer, Edits, Review, allow, deny, member, mutator, rule\n\n\n"
EDITS = "edits = Edits(review.object)\n    "
BODIES = {
    "deep": f'{EDITS}edits.set(("spec", "a", "b"), {{"x": [1, "é", True], "y": {{}}}})\n    return edits.answer()',
    "default": f'{EDITS}if edits.get(("spec", "a")) is None:\n        edits.set(("spec", "a"), "x")\n'
    "    return edits.answer()",
    "siblings": f'{EDITS}edits.set(("spec", "a", "b"), 1)\n    edits.set(("spec", "a", "é"), -2)\n'
    '    if not edits.get(("spec", "b")):\n        edits.set(("spec", "b", "a", "b"), [])\n    return edits.answer()',
    "twice": f'{EDITS}edits.set(("spec", "a"), 1)\n    if member(review.object, "spec", "b") == "x":\n'
    '        edits.set(("spec", "a"), "2")\n    return edits.answer()',
    "append": f'{EDITS}edits.append(("spec", "a"), {{"b": "x"}})\n    edits.append(("spec", "a"), "y")\n'
    "    return edits.answer()",
    "remove": f'{EDITS}edits.remove(("spec", "a", "b"))\n    edits.remove(("spec", "b"))\n    return edits.answer()',
    "branches": 'a = member(review.object, "spec", "a")\n    '
    + EDITS
    + 'if a == "x":\n        return allow()\n'
    '    elif isinstance(a, list) and any(each == "x" for each in a):\n        edits.set(("spec", "b"), "list")\n'
    '        return edits.answer()\n    if a:\n        edits.set(("spec", "c"), "some")\n    else:\n'
    '        edits.remove(("spec", "é"))\n    edits.append(("spec", "d"), 0)\n    return edits.answer()',
}
RULE = 'rule("things", group="acme.example")'
DEFINITION = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "things.acme.example"},
    "spec": {
        "group": "acme.example",
        "names": {"kind": "Thing", "plural": "things"},
        "scope": "Namespaced",
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {"spec": {"x-kubernetes-preserve-unknown-fields": True}},
                    }
                },
            }
        ],
    },
}
"""A kind whose objects may have anything in them."""
NAMESPACE = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default"}}


def source(name: str, body: str, arguments: str = RULE) -> str:
    head = f'@mutator("{name}", {arguments})\ndef f_{name}(review: Review) -> Answer:\n'
    return f'{head}    """Changes."""\n    {body}\n\n\n'


@pytest.fixture(name="chains", scope="module")
def _chains(tmp_path_factory: pytest.TempPathFactory) -> ExportedChains:
    file = tmp_path_factory.mktemp("exports") / "exported_mutators.py"
    file.write_text(HEAD + "".join(source(name, body) for name, body in BODIES.items()))
    return exported_chains(file, BODIES, "MutatingAdmissionPolicy")


KEYS = st.sampled_from(["a", "b", "é", "d"])
SCALARS = st.sampled_from([None, True, False, 0, 1, "", "x", "y"])
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=8,
)
SPECS = st.dictionaries(KEYS, VALUES, max_size=4) | VALUES


@pytest.mark.parametrize("name", BODIES)
@settings(max_examples=60, deadline=None)
@given(spec=SPECS, whole=st.booleans(), operation=st.sampled_from(["CREATE", "UPDATE"]))
def test_an_exported_mutator_makes_the_same_object(
    chains: ExportedChains,
    name: str,
    spec: Any,
    whole: bool,  # noqa: FBT001 - drawn
    operation: str,
) -> None:
    metadata = {"name": "c", "namespace": "default"}
    document = {"apiVersion": "acme.example/v1", "kind": "Thing", "metadata": metadata}
    manifest = {**document, **({"spec": spec} if whole else {})}
    python, native = (
        chain.admit(
            manifest,
            operation=operation,
            old=None if operation == "CREATE" else manifest,
            cluster=[DEFINITION, NAMESPACE],
        )
        for chain in chains[name]
    )
    assert native.allowed == python.allowed, (native.message, python.message)
    if python.allowed:
        assert native.object == python.object


def test_exported_mutators_pass_the_check(pratique: Program, tmp_path: Path) -> None:
    (tmp_path / "p.py").write_text(HEAD + "".join(source(n, b) for n, b in BODIES.items()))
    done = pratique("export", "p.py")
    assert (done.returncode, done.stderr) == (0, "")
    (tmp_path / "native.yaml").write_text(done.stdout)
    checked = pratique("check", "native.yaml")
    assert checked.returncode == 0, checked.stderr
    assert done.stdout.count("reinvocationPolicy: Never") == len(BODIES)


ANSWER = "return edits.answer()"
SET = 'edits.set(("spec", "a"), 1)\n    '
REFUSED = {
    "a computed value": (f'{EDITS}edits.set(("spec", "a"), review.name)\n    {ANSWER}', "only literals"),
    "a fraction": (f'{EDITS}edits.set(("spec", "a"), 1.5)\n    {ANSWER}', "values that can be written"),
    "null": (f'{EDITS}edits.set(("spec", "a"), None)\n    {ANSWER}', "values that can be written"),
    "an index": (f'{EDITS}edits.set(("spec", "a", 0), 1)\n    {ANSWER}', "tuples of names"),
    "an index as text": (f'{EDITS}edits.set(("spec", "0"), 1)\n    {ANSWER}', "tuples of names"),
    "a loop": (f"{EDITS}for x in []:\n        pass\n    {ANSWER}", "only if, return"),
    "edits inside edits": (
        f'{EDITS}{SET}edits.set(("spec", "a", "b"), 1)\n    {ANSWER}',
        "depend on each other",
    ),
    "set and removed": (f'{EDITS}{SET}edits.remove(("spec", "a"))\n    {ANSWER}', "depend on each other"),
    "read after writing": (f'{EDITS}{SET}if edits.get(("spec",)):\n        pass\n    {ANSWER}', "read again"),
    "dropped edits": (f"{EDITS}{SET}return allow()", "before any edit"),
    "a denial": ('return deny("no")', "a mutator's answers"),
    "a patch": ("return patch(review.object)", "a mutator's answers"),
    "warnings": (f'{EDITS}{SET}return edits.answer(warnings=("w",))', "a mutator's answers"),
    "a branch that sometimes returns": (
        f'{EDITS}if edits.get(("spec",)):\n        if review.object:\n            return allow()\n    {SET}{ANSWER}',
        "either returns or goes on",
    ),
    "no end": (f"{EDITS}{SET}".rstrip(), "without an answer"),
    "two drafts": (f"{EDITS}e = Edits(review.object)\n    {SET}{ANSWER}", "values that can be translated"),
    "no change": (f"{EDITS}{ANSWER}", "changes nothing"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_body_that_may_mean_something_else_is_told_and_left_out(tmp_path: Path, case: str) -> None:
    body, why = REFUSED[case]
    file = tmp_path / "p.py"
    file.write_text(HEAD + source("P", body))
    (found,) = export_source(file)
    assert isinstance(found, NotExported)
    assert why in str(found)


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (f'{RULE}, failure_policy="Ignore"', "another shape"),
        ('rule("things", group="acme.example", operations=("CREATE", "DELETE"))', "CREATE and UPDATE alone"),
        ('rule("things", group="acme.example", operations=("*",))', "CREATE and UPDATE alone"),
        (f"{RULE}, settings=dict", "nothing like settings"),
    ],
)
def test_a_mutator_for_other_requests_is_told_and_left_out(tmp_path: Path, arguments: str, why: str) -> None:
    file = tmp_path / "p.py"
    file.write_text(HEAD + source("P", f"{EDITS}{SET}{ANSWER}", arguments))
    (found,) = export_source(file)
    assert isinstance(found, NotExported)
    assert why in str(found)
