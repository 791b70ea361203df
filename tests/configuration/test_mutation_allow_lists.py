"""MutationAllowLists that do not say what may be changed, or what happens otherwise, are refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pratique.apimachinery.errors import ConfigurationError
from pratique.configuration.input_digests import configuration_digest
from pratique.configuration.loading import Configurations, load_configurations
from support import forked_commands
from support.forked_commands import PROGRAM

HOOK = {"kind": "MutatingWebhookConfiguration", "name": "mesh", "webhook": "inject.example.com"}
SPEC = {"policies": [HOOK], "fields": ["/metadata/labels/team"], "violationAction": "Fail"}


def document(name: str = "one", **changes: Any) -> Any:
    spec = {field: value for field, value in {**SPEC, **changes}.items() if value is not None}
    kind = {"apiVersion": "policy.pratique/v1alpha1", "kind": "MutationAllowList"}
    return {**kind, "metadata": {"name": name}, "spec": spec}


def load(folder: Path, *documents: Any) -> Configurations:
    path = folder / "lists.yaml"
    path.write_text("\n---\n".join(map(json.dumps, documents)))
    return load_configurations([path])


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"policies": []}, "spec.policies: Required value"),
        (
            {"policies": [{"kind": "ValidatingAdmissionPolicy", "name": "a"}]},
            'spec.policies[0].kind: Invalid value: "ValidatingAdmissionPolicy": changes nothing',
        ),
        ({"fields": []}, "spec.fields: Required value"),
        ({"fields": ["metadata.labels"]}, 'spec.fields[0]: Invalid value: "metadata.labels": must be a JSON'),
        ({"fields": ["/"]}, "must be a JSON Pointer to a field, such as /metadata/labels/team"),
        ({"fields": [""]}, "must be a JSON Pointer to a field"),
        ({"fields": ["/a//b"]}, "must not have an empty step"),
        ({"fields": ["/a~2b"]}, "~ must be written as ~0, and / in a name as ~1"),
        ({"fields": ["/spec/containers/-/image"]}, "so it must be the last step; write * for items"),
        ({"fields": ["/metadata/labels/*team"]}, "* must be a whole step, or the end of one"),
        ({"fields": ["/a" * 33]}, "must have at most 32 steps"),
        ({"violationAction": None}, "spec.violationAction: Required value"),
        ({"violationAction": "Warn"}, 'spec.violationAction: Unsupported value: "Warn"'),
        ({"paths": []}, 'unknown field "spec.paths"'),
    ],
)
def test_an_allow_list_that_says_too_little_or_wrong_is_refused(
    tmp_path: Path, changes: Any, error: str
) -> None:
    with pytest.raises(ConfigurationError) as refused:
        load(tmp_path, document(**changes))
    assert error in str(refused.value)


def test_nothing_is_in_two_allow_lists(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError) as twice:
        load(tmp_path, document("one"), document("two"))
    assert 'MutationAllowList "one" names it already' in str(twice.value)


def test_an_allow_list_counts_in_the_digest_of_the_configuration(tmp_path: Path) -> None:
    documents = [document(), document(violationAction="Drop"), document(fields=["/a"])]
    digests = {configuration_digest(load(tmp_path, one)) for one in documents}
    assert len({configuration_digest(Configurations()), *digests}) == 4


def test_the_page_shows_the_example_and_what_it_decides() -> None:
    root = Path(__file__).parents[2]
    page = (root / "docs" / "mutation-allow-lists.md").read_text("utf-8")
    example = root / "examples" / "12-mutation-allow-lists"
    shown = page.partition("```yaml\n")[2].partition("```")[0]
    assert shown in (example / "allow-lists.yaml").read_text("utf-8")
    console = page.partition("$ pratique review")[2].partition("```")[0]
    done = forked_commands.run([PROGRAM, "review", *console.splitlines()[0].split()], cwd=example)
    assert done.stdout.splitlines() == console.splitlines()[1:]
