"""``pratique export``: Python policies as native ones, which decide the same."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pratique_cli.policy_exports import PolicyExport, export_source
from support.exported_chains import ExportedChains, exported_chains
from support.recordings import written

Program: TypeAlias = "Callable[..., subprocess.CompletedProcess[str]]"

HEAD = "from pratique import Answer, Edits, Review, allow, deny, member, mutator, rule, validator, warn\n\n\n"
BODIES = {
    "nested": 'a = member(review.object, "spec", "a")\n    b = member(review.object, "spec", "b")\n'
    '    if a or b:\n        if a == "x":\n            return deny("x")\n        return allow()\n'
    '    return deny("none")',
    "truth": 'return allow() if member(review.object, "spec", "a") else deny("a is missing")',
    "text": 'a = member(review.object, "spec", "a")\n    return deny("is x") if a == "x" else allow()',
    "other_text": 'return deny("not x") if member(review.object, "spec", "a") != "x" else allow()',
    "among": 'return deny("é \\\\ \\"") if member(review.object, "spec", "a") in ("x", "") else allow()',
    "not_among": 'return deny("no") if member(review.object, "spec", "a") not in ["x", "b"] else allow()',
    "none": 'return deny("none") if member(review.object, "spec", "a", "b") is None else allow()',
    "some": 'return deny("some") if review.old_object is not None or not review.object else allow()',
    "length": 'a = member(review.object, "spec", "a")\n'
    '    return deny("long") if isinstance(a, list) and len(a) >= 2 else allow()',
    "any": 'spec = member(review.object, "spec")\n    a = member(spec, "a")\n'
    '    if not isinstance(a, list):\n        return deny("no list") if a else allow()\n'
    '    if any(member(each, "b") == "x" or not each for each in a):\n        return deny("found")\n    return allow()',
    "all": 'a = member(review.object, "spec", "a")\n    b = member(review.object, "spec", "b")\n'
    "    if isinstance(a, list) and isinstance(b, list):\n"
    '        if all(any(member(y, "a") is None for y in b) and x for x in a):\n            return deny("all")\n'
    "        else:\n            return allow()\n"
    '    elif not (b or a == "b"):\n        return deny("neither")\n    return deny("rest") if b and a else allow()',
}


RULE = 'rule("configmaps", operations=("CREATE", "UPDATE", "DELETE"))'


def source(name: str, body: str, arguments: str = RULE) -> str:
    head = f'@validator("{name}", {arguments})\ndef f_{name}(review: Review) -> Answer:\n'
    return f'{head}    """Denies."""\n    {body}\n\n\n'


@pytest.fixture(name="chains", scope="module")
def _chains(tmp_path_factory: pytest.TempPathFactory) -> ExportedChains:
    file = tmp_path_factory.mktemp("exports") / "exported_policies.py"
    file.write_text(HEAD + "".join(source(name, body) for name, body in BODIES.items()))
    return exported_chains(file, BODIES, "ValidatingAdmissionPolicy")


KEYS = st.sampled_from(["a", "b", "é"])
SCALARS = st.sampled_from([None, True, False, 0, 1, 0.0, -0.0, 1.0, 1.5, "", "x", "b", "ab", 2**53 + 1])
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=8,
)
SPECS = st.dictionaries(KEYS, VALUES, max_size=3) | VALUES


@pytest.mark.parametrize("name", BODIES)
@settings(max_examples=60, deadline=None)
@given(spec=SPECS, whole=st.booleans(), operation=st.sampled_from(["CREATE", "CREATE", "UPDATE", "DELETE"]))
def test_an_exported_policy_decides_as_the_python_policy(
    chains: ExportedChains,
    name: str,
    spec: Any,
    whole: bool,  # noqa: FBT001 - drawn
    operation: str,
) -> None:
    document = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "namespace": "default"}}
    manifest = {**document, **({"spec": spec} if whole else {})}
    old = None if operation == "CREATE" else manifest
    python, native = (chain.admit(manifest, operation=operation, old=old) for chain in chains[name])
    assert native.allowed == python.allowed
    own_name = name.replace("_", "-")
    prefix = f"ValidatingAdmissionPolicy '{own_name}' with binding '{own_name}' denied request: "
    assert native.message.replace(prefix, "") == python.message
    if not python.allowed:
        assert prefix in native.message
        assert native.status is not None
        assert python.status is not None
        assert (native.status.code, native.status.reason) == (python.status.code, python.status.reason)


def test_exported_policies_pass_the_check(pratique: Program, tmp_path: Path) -> None:
    arguments = (
        'rule("pods", operations=("CREATE",)), namespace_selector={"matchLabels": {"tier": "prod"}}, '
        'match_conditions={"c": "request.name != \'x\'"}, failure_policy="Ignore"'
    )
    (tmp_path / "p.py").write_text(HEAD + "".join(source(n, b, arguments) for n, b in BODIES.items()))
    done = pratique("export", "p.py")
    assert (done.returncode, done.stderr) == (0, "")
    (tmp_path / "native.yaml").write_text(done.stdout)
    checked = pratique("check", "native.yaml")
    assert checked.returncode == 0, checked.stderr
    items = json.loads(pratique("export", tmp_path, "-o", "json").stdout)["items"]
    assert len(items) == 2 * len(BODIES)
    assert items[0]["spec"]["matchConstraints"] == {
        "matchPolicy": "Exact",
        "namespaceSelector": {"matchLabels": {"tier": "prod"}},
        "resourceRules": [
            {
                "operations": ["CREATE"],
                "apiGroups": [""],
                "apiVersions": ["*"],
                "resources": ["pods"],
                "scope": "*",
            }
        ],
    }


DENY = 'return deny("no")'
REFUSED = {
    "a number": ('return deny("no") if review.object == 1 else allow()', "comparisons"),
    "length of anything": (
        'a = review.object\n    return deny("no") if len(a) > 1 else allow()',
        "may be no list",
    ),
    "dropped list": (
        'a = review.object\n    return deny("no") if isinstance(a, list) or all(x for x in a) else allow()',
        "may be no list",
    ),
    "two assignments": (f"a = review.object\n    a = review.object\n    {DENY}", "assigned twice"),
    "no end": ('if review.object:\n        return deny("no")', "ends with a return"),
    "a warning": ('return warn("w")', "answers"),
    "another code": ('return deny("no", code=400)', "answers"),
    "a made text": ('return deny(f"no {review.name}")', "answers"),
    "two lines": ('return deny("a\\nb")', "one line"),
    "a method": ('return deny("no") if review.object.get("a") else allow()', "values"),
    "no denial": ("return allow()", "denies nothing"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_body_that_may_mean_something_else_is_told_and_left_out(tmp_path: Path, case: str) -> None:
    body, why = REFUSED[case]
    file = tmp_path / "p.py"
    file.write_text(HEAD + source("P", body))
    (found,) = export_source(file)
    assert why in str(found)
    assert not isinstance(found, PolicyExport)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (source("P", DENY).replace("validator", "mutator"), "mutator"),
        (source("P", DENY).replace("def ", "async def "), "plain functions"),
        (source("P", DENY, 'rule("pods"), settings=dict'), "nothing like settings"),
        (source("P", DENY, 'rule("pods"), before=["A"]'), "nothing like before"),
        (source("P", DENY, 'rule("pod")'), "did you mean"),
        (source("P", DENY, "RULE"), "only rules written as"),
        (source("P", DENY, 'rule("pods"), failure_policy=F'), "only literals"),
        (source("P", DENY, 'rule("*", group="*")'), "asks no policy"),
        (source("P", DENY, 'rule("pods")').replace(', rule("pods")', ""), "in rules"),
        (
            source("P", DENY, 'rule("tokenreviews", group="authentication.k8s.io", operations=("CREATE",))'),
            "access",
        ),
        (source("P", DENY) + "deny = print\n", "deny may not be Pratique's"),
        (source("P", DENY) + "f_P = None\n", "used for something else"),
        ("@other\n" + source("P", DENY), "only decorator"),
    ],
)
def test_a_policy_that_is_more_than_its_function_is_told_and_left_out(
    tmp_path: Path, text: str, why: str
) -> None:
    file = tmp_path / "p.py"
    file.write_text(HEAD + text)
    (found,) = export_source(file)
    assert why in str(found)
    assert not isinstance(found, PolicyExport)


def test_a_file_is_never_run_and_what_cannot_be_exported_is_told(pratique: Program, tmp_path: Path) -> None:
    webhook = {
        "name": "a.example.com",
        "clientConfig": {"url": "https://127.0.0.1/"},
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    }
    kind = "ValidatingWebhookConfiguration"
    api_version = "admissionregistration.k8s.io/v1"
    document = {"apiVersion": api_version, "kind": kind, "metadata": {"name": "v"}, "webhooks": [webhook]}
    written(tmp_path, "webhooks.yaml", document)
    text = HEAD + "open('ran', 'w').close()\n" + source("P", 'return warn("w")') + source("Q", DENY)
    (tmp_path / "p.py").write_text(text)
    done = pratique("export", ".")
    assert done.returncode == 1
    assert "name: q" in done.stdout
    assert "p.py:8: f_P: the answers" in done.stderr
    assert "webhook 'a.example.com' of ValidatingWebhookConfiguration 'v': its decision" in done.stderr
    assert not (tmp_path / "ran").exists()


def test_hidden_folders_are_not_read(pratique: Program, tmp_path: Path) -> None:
    hidden = tmp_path / "policies" / ".venv" / "lib"
    hidden.mkdir(parents=True)
    (hidden / "broken.py").write_text("this is no Python")
    (tmp_path / "policies" / "empty.py").write_text("")
    ran = pratique("export", "policies")
    assert (ran.returncode, ran.stderr.count("\n")) == (0, 1)
    assert "there is nothing to export" in ran.stderr


def test_a_file_that_is_not_python_is_bad_input(pratique: Program, tmp_path: Path) -> None:
    (tmp_path / "p.py").write_text("def (")
    done = pratique("export", "p.py")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "pratique: p.py, line 1: is not Python that can be read\n"


def test_a_package_is_exported_whatever_lies_beside_its_policy(pratique: Program, tmp_path: Path) -> None:
    pratique("new", "policy", "RequireOwner")
    ran = pratique("export", "require-owner")
    assert ran.returncode == 1  # settings cannot be exported
    note = "pratique: note: left out what is no configuration: 1 AdmissionConfiguration, 1 AdmissionReview"
    assert ran.stderr.splitlines()[0] == note
    assert "require_owner.py:" in ran.stderr
    assert pratique("export", "require-owner/admission.yaml").returncode == 2
