from __future__ import annotations

from pathlib import Path

import pytest

from pratique.apimachinery.errors import ConfigurationError
from pratique.images.policies import DefaultAction, KeyRequirement, load_image_policy
from pratique.images.references import parse_reference
from support.image_registries import signer

HEAD = "apiVersion: policy.pratique/v1alpha1\nkind: ImageVerificationPolicy\n"


def written(folder: Path, spec: str, head: str = HEAD) -> Path:
    (folder / "cosign.pub").write_bytes(signer().pem)
    file = folder / "images.yaml"
    file.write_text(head + "spec:\n" + "".join(f"  {line}\n" for line in spec.splitlines()))
    return file


def test_a_policy_is_read_with_its_keys(tmp_path: Path) -> None:
    data = "".join(f"      {line}\n" for line in signer("Ed25519").pem.decode().splitlines())
    policy = load_image_policy(
        written(
            tmp_path,
            "defaultAction: Allow\n"
            "rules:\n"
            "- images: [r.example.com/shop/**]\n"
            "  exclude: [r.example.com/shop/tools/*]\n"
            "  keys:\n"
            "  - {file: cosign.pub}\n"
            f"  - data: |\n{data}"
            "  require: All\n"
            "  annotations: {env: prod}\n"
            "  requireDigest: true\n"
            "  matchReference: true\n"
            "- {images: [r.example.com/shop/tools/*], unsigned: true}\n"
            "registries:\n"
            "- {host: R.example.com, tokenHosts: [auth.example.com], redirectHosts: ['*.cdn.example.com']}\n",
        )
    )
    signed, unsigned = policy.rules
    assert policy.default_action is DefaultAction.ALLOW
    assert signed.keys == (signer().public, signer("Ed25519").public)
    assert (signed.require, signed.needed, unsigned.needed) == (KeyRequirement.ALL, 2, 0)
    assert (signed.annotations, signed.require_digest, signed.match_reference) == (
        {"env": "prod"},
        True,
        True,
    )
    assert policy.rules_for(parse_reference("r.example.com/shop/web")) == [signed]
    assert policy.rules_for(parse_reference("r.example.com/shop/tools/x")) == [unsigned]
    assert policy.rules_for(parse_reference("other.example.com/nginx")) == []
    registry = policy.registries["r.example.com"]
    assert registry.may_issue_tokens("https://auth.example.com/token")
    assert registry.may_redirect_to("https://a.cdn.example.com/blob")


def test_a_policy_says_where_images_without_a_host_are(tmp_path: Path) -> None:
    rules = "rules: [{images: [hub.example.com/library/*], keys: [{file: cosign.pub}]}]\n"
    spec = (
        rules
        + "defaultRegistry: hub.example.com\nregistries: [{host: hub.example.com, address: api.example.com}]"
    )
    policy = load_image_policy(written(tmp_path, spec))
    assert policy.rules_for(parse_reference("nginx", policy.default_registry)) == list(policy.rules)
    assert policy.registries["hub.example.com"].url == "https://api.example.com"


RULE = "rules:\n- images: [r.example.com/**]\n  keys: [{file: cosign.pub}]\n"


@pytest.mark.parametrize(
    ("spec", "place"),
    [
        ("rules: []", "spec.rules: Required value"),
        ("rules: [{keys: [{file: cosign.pub}]}]", "spec.rules[0].images: Required value"),
        ("rules: [{images: [r.example.com/**]}]", "spec.rules[0].keys: Required value: write unsigned: true"),
        ("rules: [{images: [nginx], unsigned: true}]", "spec.rules[0].images[0]: Invalid value"),
        ("rules: [{images: ['*.example.com/a'], unsigned: true}]", "spec.rules[0].images[0]: Invalid value"),
        (RULE + "  unsigned: true", "spec.rules[0].unsigned: Forbidden"),
        (RULE + "  require: Most", 'spec.rules[0].require: Unsupported value: "Most"'),
        (RULE + "  require: 1", "spec.rules[0].require: Invalid value"),
        (RULE + "  annotation: {a: b}", 'unknown field "spec.rules[0].annotation"'),
        (RULE + "defaultAction: deny", "spec.defaultAction: Unsupported value"),
        (RULE + "registries: [{host: 'https://r.example.com'}]", "spec.registries[0].host: Invalid value"),
        (RULE + "defaultRegistry: https://r.example.com", "spec.defaultRegistry: Invalid value"),
        (RULE + "registries: [{host: a, address: 'a/b'}]", "spec.registries[0].address: Invalid value"),
        (RULE + "registries: [{}]", "spec.registries[0].host: Invalid value"),
        (RULE + "registries: [{host: a}, {host: A}]", "spec.registries[1].host: Duplicate value"),
        (
            RULE + "registries: [{host: a, redirectHosts: ['*.com']}]",
            "spec.registries[0].redirectHosts[0]: Invalid",
        ),
        (
            RULE + "registries: [{host: a, tokenHosts: ['*']}]",
            "spec.registries[0].tokenHosts[0]: Invalid value",
        ),
        (RULE.replace("cosign.pub", "no.pub"), "no.pub: cannot be read: No such file"),
        (RULE.replace("cosign.pub", "images.yaml"), "expected one public key in PEM"),
        (RULE.replace("{file: cosign.pub}", "{}"), "spec.rules[0].keys[0]: Invalid value"),
        (
            RULE.replace("]\n", ", {file: cosign.pub}]\n").replace("**, {file: cosign.pub}", "**"),
            "Duplicate value",
        ),
    ],
)
def test_a_mistake_is_told_with_its_place(tmp_path: Path, spec: str, place: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        load_image_policy(written(tmp_path, spec))
    assert str(refused.value).startswith("--policy ")
    assert place in str(refused.value)


@pytest.mark.parametrize(
    "head", ["apiVersion: v1\nkind: Pod\n", "", HEAD.replace("v1alpha1", "v2"), HEAD + "---\n" + HEAD]
)
def test_other_documents_are_refused(tmp_path: Path, head: str) -> None:
    with pytest.raises(ConfigurationError, match="expected"):
        load_image_policy(written(tmp_path, RULE, head))
