"""Validation of webhook configurations, with the API server's messages."""

from __future__ import annotations

import pytest

from pratique.apimachinery.json_values import JSON, JSONObject
from pratique.configuration.admissionregistration import (
    WebhookConfigurationDocument,
    apply_webhook_defaults,
    decode_webhook_configuration,
)
from pratique.configuration.webhook_validation import (
    update_validation_options,
    validate_configuration,
    validation_options,
)

RULE = {"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]}


def configuration(
    *webhooks: JSONObject, version: str = "v1", **metadata: JSON
) -> WebhookConfigurationDocument:
    right = {
        "name": "a.example.com",
        "clientConfig": {"url": "https://example.com"},
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    }
    return apply_webhook_defaults(
        decode_webhook_configuration(
            {
                "apiVersion": f"admissionregistration.k8s.io/{version}",
                "kind": "MutatingWebhookConfiguration",
                "metadata": {"name": "config", **metadata},
                "webhooks": [{**right, **webhook} for webhook in webhooks],
            }
        )
    )


def errors_of(document: WebhookConfigurationDocument) -> list[str]:
    return [str(error) for error in validate_configuration(document, validation_options(document.version))]


def url_errors(url: str) -> list[str]:
    return errors_of(configuration({"clientConfig": {"url": url}}))


@pytest.mark.parametrize(
    "url",
    [
        "https://example.com",
        "https://example.com:8443/path/",
        "https://[::1]:443",
        "grpc://validator:9090",
        "grpc://my_service.default.svc:1",
        "grpcs://10.0.0.1:65535",
        "grpc://[fe80::1]:9090",
        "GRPC://a:1",
    ],
)
def test_a_valid_url_is_accepted(url: str) -> None:
    assert url_errors(url) == []


@pytest.mark.parametrize(
    ("url", "message"),
    [
        (
            "http://a",
            "Invalid value: \"http\": 'https' is the only allowed URL scheme; desired format: https://host",
        ),
        ("https:///a", 'Invalid value: "": host must be specified; desired format: https://host[/path]'),
        (
            "https://a b",
            'Required value: url must be a valid URL: parse "https://a b": invalid character " " in',
        ),
        ("https://u:p@a", 'Invalid value: "u:xxxxx": user information is not permitted in the URL'),
        ("https://a#b", 'Invalid value: "b": fragments are not permitted in the URL'),
        ("https://a?b", 'Invalid value: "b": query parameters are not permitted in the URL'),
        ("grpc://a", 'Invalid value: "a": port must be specified; desired format: grpc://host:port'),
        ("grpc://a:", 'Invalid value: "a:": port must be specified; desired format: grpc://host:port'),
        (
            "grpcs://[::1]",
            'Invalid value: "[::1]": port must be specified; desired format: grpcs://host:port',
        ),
        ("grpc://a:0", 'Invalid value: "0": port is not valid: must be between 1 and 65535, inclusive'),
        ("grpc://a:99999999", 'Invalid value: "99999999": port is not valid: must be between 1 and 65535'),
        (
            "grpc://a:1/",
            'Invalid value: "/": paths are not permitted in a grpc URL; desired format: grpc://host',
        ),
        ("grpc://a:1?b", 'Invalid value: "b": query parameters are not permitted in the URL'),
        ("grpc://a:1#b", 'Invalid value: "b": fragments are not permitted in the URL'),
        ("grpc://u@a:1", 'Invalid value: "u": user information is not permitted in the URL'),
        ("grpc://a,b:1", 'Invalid value: "a,b": host must be a name or an address; desired format: grpc://'),
        ("grpc://-a:1", 'Invalid value: "-a": host must be a name or an address; desired format: grpc://'),
    ],
)
def test_an_invalid_url_is_refused(url: str, message: str) -> None:
    (error,) = url_errors(url)
    assert error.startswith(f"webhooks[0].clientConfig.url: {message}")


@pytest.mark.parametrize("url", ["grpc://", "grpc:a", "grpc://:1", "grpc://a:1:2"])
def test_a_grpc_url_without_one_host_and_port_is_refused(url: str) -> None:
    assert url_errors(url)


@pytest.mark.parametrize(
    ("service", "messages"),
    [
        ({"name": "a", "namespace": "b"}, []),
        ({"name": "a", "namespace": "b", "path": "/a/"}, []),
        ({}, ["name: Required value", "namespace: Required value"]),
        (
            {"name": "a", "namespace": "b", "port": 65536},
            ["port: Invalid value: 65536: port is not valid: must be between 1 and 65535, inclusive"],
        ),
        (
            {"name": "a", "namespace": "b", "path": "a"},
            [
                "path: Invalid value: \"a\": must start with a '/'",
                'path: Invalid value: "a": segment[0] may not be',
            ],
        ),
    ],
)
def test_a_service_reference_is_validated(service: JSONObject, messages: list[str]) -> None:
    found = errors_of(configuration({"clientConfig": {"service": service}}))
    assert len(found) == len(messages)
    for error, message in zip(found, messages, strict=True):
        assert error.startswith(f"webhooks[0].clientConfig.service.{message}")


@pytest.mark.parametrize(
    ("rule", "messages"),
    [
        ({}, []),
        ({"apiGroups": []}, ["apiGroups: Required value"]),
        (
            {"apiGroups": ["*", "apps"]},
            ['apiGroups: Invalid value: ["*","apps"]: if \'*\' is present, must not specify other API'],
        ),
        (
            {"apiVersions": ["*", "v1"]},
            ['apiVersions: Invalid value: ["*","v1"]: if \'*\' is present, must not specify other'],
        ),
        ({"apiVersions": [""]}, ["apiVersions[0]: Required value"]),
        ({"resources": [""]}, ["resources[0]: Required value"]),
        (
            {"resources": ["*", "*/a", "b/*", "b/c"]},
            ["resources[3]: Invalid value: \"b/c\": if 'b/*' is present"],
        ),
        ({"resources": ["a", "*"]}, []),
        (
            {"resources": ["*", "a"]},
            ['resources: Invalid value: ["*","a"]: if \'*\' is present, must not'],
        ),
        (
            {"operations": ["CREATE", "*"]},
            ['operations: Invalid value: ["CREATE","*"]: if \'*\' is present'],
        ),
        (
            {"operations": ["PATCH"]},
            [
                'operations[0]: Unsupported value: "PATCH": supported values: "*", "CONNECT", "CREATE", "DELETE", "UPD'
            ],
        ),
        (
            {"scope": "Pod"},
            ['scope: Unsupported value: "Pod": supported values: "*", "Cluster", "Namespaced"'],
        ),
    ],
)
def test_a_rule_is_validated(rule: JSONObject, messages: list[str]) -> None:
    found = errors_of(configuration({"rules": [{**RULE, **rule}]}))
    assert len(found) == len(messages)
    for error, message in zip(found, messages, strict=True):
        assert error.startswith(f"webhooks[0].rules[0].{message}")


@pytest.mark.parametrize(
    ("webhook", "message"),
    [
        (
            {"matchPolicy": "x"},
            'matchPolicy: Unsupported value: "x": supported values: "Equivalent", "Exact"',
        ),
        (
            {"reinvocationPolicy": "x"},
            'reinvocationPolicy: Unsupported value: "x": supported values: "IfNeeded", "N',
        ),
        ({"name": "A.b.c"}, 'name: Invalid value: "A.b.c": a lowercase RFC 1123 subdomain must consist of'),
        (
            {"admissionReviewVersions": ["v2"]},
            'admissionReviewVersions: Invalid value: ["v2"]: must include',
        ),
        (
            {"sideEffects": "Some"},
            'sideEffects: Unsupported value: "Some": supported values: "None", "NoneOnDryRun"',
        ),
        (
            {"matchConditions": [{"name": "a", "expression": " \n"}]},
            "matchConditions[0].expression: Required value",
        ),
        (
            {"objectSelector": {"matchExpressions": [{"key": "a", "operator": "In"}]}},
            "objectSelector.matchExpressions[0].values: Required value: must be specified when",
        ),
        (
            {"namespaceSelector": {"matchLabels": {"a": "b c"}}},
            'namespaceSelector.matchLabels: Invalid value: "b c"',
        ),
    ],
)
def test_a_field_is_validated(webhook: JSONObject, message: str) -> None:
    (error,) = errors_of(configuration(webhook))
    assert error.startswith(f"webhooks[0].{message}")


def test_match_conditions_need_distinct_names() -> None:
    conditions = [{"name": "a", "expression": "true"}] * 2
    (error,) = errors_of(configuration({"matchConditions": conditions}))
    assert error == 'webhooks[0].matchConditions[1].name: Duplicate value: "a"'


@pytest.mark.parametrize(
    ("metadata", "message"),
    [
        ({"name": ""}, "metadata.name: Required value: name or generateName is required"),
        ({"name": "A"}, 'metadata.name: Invalid value: "A": a lowercase RFC 1123 subdomain must consist of'),
        ({"namespace": "a"}, "metadata.namespace: Forbidden: not allowed on this type"),
        ({"labels": {"a b": ""}}, 'metadata.labels: Invalid value: "a b": name part must consist of'),
        (
            {"annotations": {"a b": ""}},
            'metadata.annotations: Invalid value: "a b": name part must consist of',
        ),
        (
            {"annotations": {"a": "x" * 2**18}},
            "metadata.annotations: Too long: may not be more than 262144 bytes",
        ),
    ],
)
def test_metadata_is_validated(metadata: JSONObject, message: str) -> None:
    (error,) = errors_of(configuration(**metadata))
    assert error.startswith(message)


def test_metadata_that_an_api_server_writes_is_accepted() -> None:
    assert not errors_of(
        configuration(
            uid="u",
            resourceVersion="1",
            generation=2,
            creationTimestamp="2026-01-01T00:00:00Z",
            annotations={"Example.com/A": ""},
            managedFields=[{"manager": "kubectl"}],
            finalizers=["example.com/a"],
            ownerReferences=[{"kind": "A"}],
        )
    )


@pytest.mark.parametrize("side_effects", ["None", "NoneOnDryRun", "Some", "Unknown"])
def test_v1beta1_allows_every_side_effect_and_duplicate_names(side_effects: str) -> None:
    webhook = {"sideEffects": side_effects}
    assert errors_of(configuration(webhook, webhook, version="v1beta1")) == []


def test_v1beta1_refuses_other_side_effects() -> None:
    (error,) = errors_of(configuration({"sideEffects": "Many"}, version="v1beta1"))
    assert error.endswith('supported values: "None", "NoneOnDryRun", "Some", "Unknown"')


@pytest.mark.parametrize(
    "webhook",
    [
        {"sideEffects": "Some"},
        {"admissionReviewVersions": ["v2"]},
        {"objectSelector": {"matchExpressions": [{"key": "a", "operator": "In", "values": ["b c"]}]}},
        {"matchConditions": [{"name": "a"}]},
    ],
)
def test_an_update_may_keep_what_the_old_configuration_had(webhook: JSONObject) -> None:
    old = configuration(webhook)
    assert errors_of(old)
    assert validate_configuration(old, update_validation_options(old, old)) == []
    fresh = configuration({})
    assert validate_configuration(old, update_validation_options(old, fresh))
