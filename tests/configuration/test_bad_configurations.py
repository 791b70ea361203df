"""Errors in configuration files are all reported, with file, document, field and line."""

from __future__ import annotations

from pathlib import Path

import pytest

from pratique.apimachinery.errors import ConfigurationError
from pratique.configuration.loading import load_configurations

HEAD = """\
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: config}
webhooks:
- name: pods.example.com
  sideEffects: None
  admissionReviewVersions: [v1]
"""
RIGHT = HEAD + "  clientConfig: {url: https://example.com}\n"
SUBJECT = 'document 1: ValidatingWebhookConfiguration "config": '
SUPPORTED = (
    "supported are MutatingWebhookConfiguration and ValidatingWebhookConfiguration "
    "of admissionregistration.k8s.io/v1 and v1beta1, policies and their bindings, "
    "and PolicyException, PolicyRollout and MutationAllowList of policy.pratique/v1alpha1"
)


def refusal(*paths: Path) -> list[str]:
    with pytest.raises(ConfigurationError) as refused:
        load_configurations(paths)
    return str(refused.value).splitlines()


def written(folder: Path, text: str | bytes, name: str = "a.yaml") -> Path:
    file = folder / name
    file.write_bytes(text.encode() if isinstance(text, str) else text)
    return file


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "holds no documents; expected an object with apiVersion and kind"),
        ("# nothing\n", "holds no documents"),
        (
            "a: [",
            "document 1, line 2, column 1: while parsing a flow node: did not find expected node content",
        ),
        ("a:\n\tb: 1\n", "document 1, line 2, column 1: while scanning for the next token: found character"),
        (b"a: \xff", "document 1, line 1, column 4: invalid leading UTF-8 octet: the text must be UTF-8"),
        ("kind: A".encode("utf-16"), "is UTF-16; save it as UTF-8"),
        ("hello", "document 1, line 1, column 1: expected an object with apiVersion and kind, got a string"),
        ("- a", "document 1, line 1, column 1: expected an object with apiVersion and kind, got a list"),
        ("{}", f"document 1: Object 'Kind' is missing; {SUPPORTED} (line 1)"),
        ("apiVersion: v1\n", f"document 1: Object 'Kind' is missing; {SUPPORTED} (line 1)"),
        ("kind: Pod\n", f"document 1: Pod: Object 'apiVersion' is missing; {SUPPORTED} (line 1)"),
        (
            "apiVersion: v1\nkind: Pod\nmetadata: {name: x}\n",
            f'document 1: Pod "x": no kind "Pod" is registered for version "v1"; {SUPPORTED} (line 2)',
        ),
        (
            RIGHT.replace("/v1", "/v2"),
            f'{SUBJECT}no kind "ValidatingWebhookConfiguration" is registered for version "admissionregistration',
        ),
        (RIGHT.replace("io/v1", "io/v1beta1"), ""),
        (
            "apiVersion: apiserver.config.k8s.io/v1\nkind: AdmissionConfiguration\n",
            "document 1: AdmissionConfiguration: belongs to --admission-control-config-file (line 2)",
        ),
        (f"{RIGHT}  foo: 1\n", f'{SUBJECT}unknown field "webhooks[0].foo" (line 9)'),
        (
            f"{RIGHT}  reinvocationPolicy: Never\n",
            f'{SUBJECT}unknown field "webhooks[0].reinvocationPolicy" (line 9)',
        ),
        (
            f"{RIGHT}  FailurePolicy: Fail\n",
            f'{SUBJECT}unknown field "webhooks[0].FailurePolicy"; did you mean "failurePolicy"? (line 9)',
        ),
        (f"{RIGHT}spec: {{}}\n", f'{SUBJECT}unknown field "spec" (line 9)'),
        (
            f"{RIGHT}  timeoutSeconds: ten\n",
            f'{SUBJECT}webhooks[0].timeoutSeconds: Invalid value: "string": webhooks[0].timeoutSeconds in body must be',
        ),
        (
            f"{RIGHT}  rules: {{}}\n",
            f'{SUBJECT}webhooks[0].rules: Invalid value: "object": webhooks[0].rules in body',
        ),
        (
            f"{RIGHT}  timeoutSeconds: 0\n",
            f"{SUBJECT}webhooks[0].timeoutSeconds: Invalid value: 0: the timeout value must be between 1 and 30 sec",
        ),
        (
            f"{RIGHT}  timeoutSeconds: 99999999999\n",
            f"{SUBJECT}webhooks[0].timeoutSeconds: Invalid value: 99999999999: must be between -2147483648 and",
        ),
        (
            f"{RIGHT}  sideEffects: None\n",
            'document 1, line 9, column 3: strict decoding error: duplicate field "webh',
        ),
        (
            f"{HEAD}  clientConfig: {{url: https://example.com, caBundle: 'a-b='}}\n",
            f"{SUBJECT}webhooks[0].clientConfig.caBundle: Invalid value: illegal base64 data at input byte 1 (line 8)",
        ),
        (
            HEAD,
            f"{SUBJECT}webhooks[0].clientConfig: Required value: exactly one of url or service is required (line 5)",
        ),
        (
            f"{HEAD}  clientConfig: {{url: grpc://example.com}}\n",
            f'{SUBJECT}webhooks[0].clientConfig.url: Invalid value: "example.com": port must be specified; desired',
        ),
        (
            RIGHT.replace("{name: config}", "{}"),
            "document 1: ValidatingWebhookConfiguration: metadata.name: Required value: name or generateName is",
        ),
        (
            RIGHT.replace("{name: config}", "5"),
            'document 1: ValidatingWebhookConfiguration: metadata: Invalid value: "integer": metadata in body must be',
        ),
        ("kind: List\nitems: 5\n", "document 1, line 2, column 1: items must be a list, got a number"),
    ],
)
def test_an_error_names_file_document_and_line(tmp_path: Path, text: str | bytes, message: str) -> None:
    file = written(tmp_path, text)
    if not message:
        assert load_configurations([file]).validating
        return
    (line,) = refusal(file)
    assert line.startswith(f"{file}: {message}")


def test_several_errors_in_a_document_are_reported_together_and_one_by_one(tmp_path: Path) -> None:
    text = RIGHT.replace("[v1]", "[v2]") + "  timeoutSeconds: 31\n"
    together, first, second = refusal(written(tmp_path, text))
    timeout = (
        "webhooks[0].timeoutSeconds: Invalid value: 31: the timeout value must be between 1 and 30 seconds"
    )
    path = "webhooks[0].admissionReviewVersions"
    versions = f'{path}: Invalid value: ["v2"]: must include at least one of v1, v1beta1'
    assert f'ValidatingWebhookConfiguration "config" is invalid: [{timeout}, {versions}]' in together
    assert first.endswith(f"{SUBJECT}{timeout} (line 9)")
    assert second.endswith(f"{SUBJECT}{versions} (line 7)")


def test_the_errors_of_all_files_are_reported(tmp_path: Path) -> None:
    broken = written(tmp_path, "a: [", "1.yaml")
    unknown = written(tmp_path, f"{RIGHT}  foo: 1\n---\n{RIGHT}  bar: 1\n", "2.yaml")
    missing = tmp_path / "3.yaml"
    empty = tmp_path / "folder"
    empty.mkdir()
    lines = refusal(broken, unknown, missing, empty)
    assert [line.partition(": ")[0] for line in lines] == [
        str(path) for path in (broken, unknown, unknown, missing, empty)
    ]
    assert "document 2" in lines[2]
    assert lines[3].endswith("no such file or folder")


def test_a_broken_file_of_a_folder_does_not_hide_the_next(tmp_path: Path) -> None:
    written(tmp_path, "a: [", "1.yaml")
    written(tmp_path, "b: [", "2.yaml")
    assert len(refusal(tmp_path)) == 2


@pytest.mark.parametrize("name", ["a.yaml", "b.yaml"])
def test_a_duplicate_name_is_reported_with_both_files(tmp_path: Path, name: str) -> None:
    first = written(tmp_path, RIGHT)
    text = f"{RIGHT}---\n{RIGHT}" if name == "a.yaml" else RIGHT
    second = written(tmp_path, text, name)
    (line,) = refusal(tmp_path)
    assert f'duplicate name "config" found in file "{second}" (previously seen in "{first}")' in line


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            f"{HEAD}  clientConfig: {{service: {{name: a, namespace: b}}}}\n",
            "webhooks[0].clientConfig.service: Forbidden: clientConfig.service is not supported for static manifests",
        ),
        (
            RIGHT.replace("io/v1", "io/v1beta1"),
            'apiVersion: Unsupported value: "admissionregistration.k8s.io/v1beta1": supported values: "admission',
        ),
    ],
)
def test_static_configurations_have_further_rules(tmp_path: Path, text: str, message: str) -> None:
    static = text.replace("name: config", "name: config.static.k8s.io")
    (line,) = refusal(written(tmp_path, static))
    assert f'ValidatingWebhookConfiguration "config.static.k8s.io": {message}' in line


def test_an_expression_that_does_not_compile_is_reported_with_its_line(tmp_path: Path) -> None:
    text = f"{RIGHT}  matchConditions: [{{name: a, expression: '6'}}]\n"
    (line,) = refusal(written(tmp_path, text))
    assert line.endswith('expression: Invalid value: "6": must evaluate to bool but got int (line 9)')


def test_a_field_of_a_list_item_is_reported_with_its_line(tmp_path: Path) -> None:
    items = f"{RIGHT}  foo: 1\n".replace("\n", "\n  ")
    (line,) = refusal(written(tmp_path, f"kind: List\nitems:\n- {items}\n"))
    assert line.endswith('unknown field "webhooks[0].foo" (line 11)')
