"""Webhook configurations from files and folders, and their order."""

from __future__ import annotations

from pathlib import Path

from pratique.admission.rules import Rule
from pratique.apimachinery.selectors import EVERYTHING
from pratique.configuration.admissionregistration import WebhookConfigurationKind
from pratique.configuration.loading import Configurations, load_configurations

APIVERSION = "admissionregistration.k8s.io/v1"
WEBHOOK = """\
- name: pods.example.com
  clientConfig: {url: "grpc://validator:9090", caBundle: aGk=}
  rules:
  - {operations: [CREATE], apiGroups: [""], apiVersions: [v1], resources: [pods]}
  sideEffects: None
  admissionReviewVersions: [v1]
"""


def written(name: str, kind: str = "Validating", version: str = "v1", webhooks: str = WEBHOOK) -> str:
    return (
        f"apiVersion: admissionregistration.k8s.io/{version}\nkind: {kind}WebhookConfiguration\n"
        f"metadata: {{name: {name}}}\nwebhooks:\n{webhooks}"
    )


def load(folder: Path, *texts: str) -> Configurations:
    for number, text in enumerate(texts):
        (folder / f"{number}.yaml").write_text(text)
    return load_configurations([folder])


def test_without_a_path_there_is_nothing() -> None:
    assert load_configurations([]) == Configurations()


def test_a_loaded_configuration_has_its_defaults(tmp_path: Path) -> None:
    (configuration,) = load(tmp_path, written("a")).validating
    assert configuration.kind is WebhookConfigurationKind.VALIDATING
    assert configuration.name == "a"
    (webhook,) = configuration.webhooks
    assert webhook.name == "pods.example.com"
    assert webhook.client_config.url == "grpc://validator:9090"
    assert webhook.client_config.ca_bundle == b"hi"
    assert webhook.rules == (Rule(("CREATE",), ("",), ("v1",), ("pods",), "*"),)
    assert webhook.failure_policy == "Fail"
    assert webhook.timeout_seconds == 10
    assert webhook.namespace_selector == EVERYTHING


def test_a_configuration_of_the_older_version_has_its_own_defaults(tmp_path: Path) -> None:
    minimal = "- name: a.example.com\n  clientConfig: {url: https://example.com}\n"
    (configuration,) = load(tmp_path, written("a", version="v1beta1", webhooks=minimal)).validating
    (webhook,) = configuration.webhooks
    assert (webhook.failure_policy, webhook.timeout_seconds) == ("Ignore", 30)
    assert webhook.admission_review_versions == ("v1beta1",)


def test_configurations_are_sorted_by_name_within_their_kind(tmp_path: Path) -> None:
    loaded = load(
        tmp_path,
        "---\n".join(written(name) for name in ("b", "a.b", "a-b", "a")),
        "---\n".join(written(name, "Mutating") for name in ("b", "a")),
    )
    assert [configuration.name for configuration in loaded.validating] == ["a", "a-b", "a.b", "b"]
    assert [configuration.name for configuration in loaded.mutating] == ["a", "b"]


def test_static_configurations_come_before_the_others(tmp_path: Path) -> None:
    loaded = load(tmp_path, written("a"), written("z.static.k8s.io"), written("b.static.k8s.io"))
    assert [configuration.name for configuration in loaded.validating] == [
        "b.static.k8s.io",
        "z.static.k8s.io",
        "a",
    ]


def test_lists_json_and_several_paths_are_read(tmp_path: Path) -> None:
    items = written("a").replace("\n", "\n  ")
    (tmp_path / "list.yaml").write_text(f"kind: List\nitems:\n- {items}\n")
    (tmp_path / "b.json").write_text(
        f'{{"apiVersion": "{APIVERSION}", "kind": "MutatingWebhookConfiguration", "metadata": {{"name": "b"}}}}'
    )
    loaded = load_configurations([tmp_path / "list.yaml", tmp_path / "b.json"])
    assert [item.name for item in (*loaded.mutating, *loaded.validating)] == ["b", "a"]


def test_a_configuration_knows_its_source_file(tmp_path: Path) -> None:
    (_, second) = load(tmp_path, f"{written('a')}---\n{written('b')}").validating
    assert second.source is not None
    assert second.source.file == str(tmp_path / "0.yaml")
    assert second.source.index == 1
    assert second.source.position(("webhooks", 0, "sideEffects")).line == 20


def test_both_kinds_may_use_the_same_name(tmp_path: Path) -> None:
    loaded = load(tmp_path, written("a"), written("a", "Mutating"))
    assert len(loaded.mutating) == len(loaded.validating) == 1


def test_an_empty_file_in_a_folder_is_accepted(tmp_path: Path) -> None:
    assert len(load(tmp_path, written("a"), "# later\n").validating) == 1


def test_equal_files_make_equal_configurations(tmp_path: Path) -> None:
    assert load(tmp_path, written("a")) == load(tmp_path, written("a"))
    assert load(tmp_path, written("a")) != load(tmp_path, written("b"))


def test_test_suites_beside_configurations_are_ignored(tmp_path: Path) -> None:
    suite = "apiVersion: test.pratique/v1\nkind: TestSuite\n"
    assert len(load(tmp_path, f"{written('a')}---\n{suite}", suite).validating) == 1
