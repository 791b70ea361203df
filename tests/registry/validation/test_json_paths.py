"""JSONPath, of which the status of policies has some: what is none, in the words of a real kube-apiserver."""

from __future__ import annotations

import pytest

from pratique.apimachinery.json_values import JSONObject
from pratique.registry.validation.json_paths import JSONPathError, check_json_path
from support.manifest_decisions import decide_manifest


@pytest.mark.parametrize(
    "path",
    [
        "spec.validations[0].expression",
        "$.items[*]['metadata'].name",
        "..name",
        ".items[?(@.kind=='a)')].name",
        "[1,2].a",
        "[0:2:1]",
        "'it\\'s' \"\\t\"",
        "a}b{c",
        ".a\\.b",
        "+1.5",
    ],
)
def test_a_path_is_one(path: str) -> None:
    check_json_path(f"{{{path}}}")


@pytest.mark.parametrize(
    ("path", "error"),
    [
        ("100%", "unrecognized character in action: U+0025 '%'"),
        ("\0", "unrecognized character in action: U+0000"),
        ("a{b\n", "unrecognized character in action: U+007B '{'"),
        ("\n", "unclosed action"),
        ("....", "invalid multiple recursive descent"),
        ("[0", "unterminated array"),
        ("[a]", "invalid array index a"),
        ("[-]", "array index - is not a number"),
        ("[1,x]", "invalid array index x"),
        ("[?(a", "unterminated filter"),
        ("[?(a)b", "unclosed array expect ]"),
        ("[?(%==1)]", "unrecognized character in action: U+0025 '%'"),
        ("'a", "unterminated quoted string"),
        ("'\\q'", "unquote string '\\q' error invalid syntax"),
        ('"\\ud800"', 'unquote string "\\ud800" error invalid syntax'),
        ("1.2.3", "cannot parse number 1.2.3"),
        ("-", "cannot parse number -"),
    ],
)
def test_what_is_no_path_is_told(path: str, error: str) -> None:
    with pytest.raises(JSONPathError) as found:
        check_json_path(f"{{{path}}}")
    assert str(found.value) == error


def test_a_warning_of_a_policy_names_a_field() -> None:
    rules = [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}]
    policy: JSONObject = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": "a"},
        "spec": {"matchConstraints": {"resourceRules": rules}, "validations": [{"expression": "true"}]},
    }
    warnings = [{"fieldRef": " 'a ", "warning": "w"}, {"fieldRef": " ", "warning": ""}]
    status = {"typeChecking": {"expressionWarnings": warnings}}
    decision = decide_manifest({**policy, "status": status}, old=policy, subresource="status")
    assert decision.status is not None
    assert decision.status.message.endswith(
        '[status.typeChecking.expressionWarnings[0].fieldRef: Invalid value: "\'a": invalid JSONPath: unterminated'
        " quoted string, status.typeChecking.expressionWarnings[1].warning: Required value,"
        " status.typeChecking.expressionWarnings[1].fieldRef: Required value]"
    )
