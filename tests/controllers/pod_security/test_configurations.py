"""The PodSecurityConfiguration."""

from __future__ import annotations

import pytest

from pratique.apimachinery.decoding import decode_strictly
from pratique.apimachinery.errors import ConfigurationError
from pratique.apimachinery.json_values import JSON, JSONObject
from pratique.controllers.pod_security import CONTROLLER
from pratique.controllers.pod_security.configuration import (
    ExemptNames,
    PodSecurityConfiguration,
    PodSecuritySettings,
    read_configuration,
)
from pratique.controllers.pod_security.standards import NamespacePolicy
from pratique.hosting.catalogue import configure_controller

GROUP = "pod-security.admission.config.k8s.io"


def configuration(version: str = "v1", **members: JSON) -> JSONObject:
    return {"apiVersion": f"{GROUP}/{version}", "kind": "PodSecurityConfiguration", **members}


def standards_of(document: JSONObject) -> PodSecuritySettings:
    return read_configuration(decode_strictly(document, PodSecurityConfiguration))


def modes(policy: NamespacePolicy) -> list[str]:
    return [str(policy.enforce), str(policy.audit), str(policy.warn)]


@pytest.mark.parametrize(
    "document", [{}, configuration(), configuration(defaults={"enforce": "", "warn": None})]
)
def test_by_default_nothing_is_forbidden(document: JSONObject) -> None:
    found = standards_of(document)
    assert found.policies.defaults == NamespacePolicy()
    assert found.exempt == ExemptNames()


@pytest.mark.parametrize("version", ["v1", "v1beta1", "v1alpha1"])
def test_all_versions_of_the_configuration_are_equal(version: str) -> None:
    found = standards_of(
        configuration(
            version,
            defaults={"enforce": "baseline", "enforce-version": "v1.7", "warn-version": "v1.8"},
            exemptions={
                "usernames": ["alice", "bob"],
                "namespaces": ["kube-system"],
                "runtimeClasses": ["special"],
            },
        )
    )
    assert modes(found.policies.defaults) == ["baseline:v1.7", "privileged:latest", "privileged:v1.8"]
    assert found.exempt == ExemptNames(
        frozenset({"alice", "bob"}), frozenset({"kube-system"}), frozenset({"special"})
    )


def fault(document: JSON) -> str:
    with pytest.raises(ConfigurationError) as error:
        configure_controller(CONTROLLER, document)
    return str(error.value).removeprefix('couldn\'t init admission plugin "PodSecurity": ')


@pytest.mark.parametrize(
    ("document", "text"),
    [
        ({"kind": "PodSecurityConfiguration"}, "'apiVersion' is missing"),
        ({"apiVersion": f"{GROUP}/v1alpha1"}, "'Kind' is missing"),
        ({"defaults": {"enforce": "baseline"}}, "'Kind' is missing"),
        ({"apiVersion": "apps/v1alpha1", "kind": "PodSecurityConfiguration"}, '"apps/v1alpha1"'),
        (
            configuration("v99"),
            f'no kind "PodSecurityConfiguration" is registered for version "{GROUP}/v99"',
        ),
        ({**configuration(), "kind": "SomeConfiguration"}, 'no kind "SomeConfiguration" is registered'),
        (
            configuration(deflaults={"enforce": "baseline"}),
            'strict decoding error: unknown field "deflaults"',
        ),
        (configuration(defaults={"enforceVersion": "v1.1"}), 'unknown field "defaults.enforceVersion"'),
        (
            configuration(exemptions={"namespaces": "kube-system"}),
            "exemptions.namespaces in body must be of type array",
        ),
    ],
)
def test_other_documents_are_rejected(document: JSON, text: str) -> None:
    assert text in fault(document)


def test_all_invalid_defaults_are_reported() -> None:
    written = {
        "enforce": "baslein",
        "enforce-version": "v.122",
        "audit": "lorum",
        "audit-version": "ipsum",
        "warn": "dolor",
        "warn-version": "sit",
    }
    level, version = "must be one of privileged, baseline, restricted", 'must be "latest" or "v1.x"'
    assert fault(configuration(defaults=written)) == (
        f"PodSecurity configuration error: [enforce: {level}, enforce-version: {version}, audit: {level},"
        f" audit-version: {version}, warn: {level}, warn-version: {version}]"
    )


def test_a_single_invalid_default_is_reported_without_brackets() -> None:
    assert fault(configuration(defaults={"audit": "all"})) == (
        "PodSecurity configuration error: audit: must be one of privileged, baseline, restricted"
    )


LABEL = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end"
    " with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is"
    " '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)
SUBDOMAIN = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start"
    " and end with an alphanumeric character (e.g. 'example.com', regex used for validation is"
    " '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
LONG = "test" * 16


def test_all_invalid_exemptions_are_reported() -> None:
    exemptions = {
        "namespaces": ["", "_&$%#", "TEST", LONG, "testing", "testing"],
        "runtimeClasses": ["", "_&$%#", "TEST", "testing", "testing"],
        "usernames": ["", "testing", "testing"],
    }
    expected = [
        *(
            f'exemptions.namespaces[{at}]: Invalid value: "{bad}": {LABEL}'
            for at, bad in enumerate(["", "_&$%#", "TEST"])
        ),
        f'exemptions.namespaces[3]: Invalid value: "{LONG}": must be no more than 63 characters',
        'exemptions.namespaces[5]: Duplicate value: "testing"',
        *(
            f'exemptions.runtimeClasses[{at}]: Invalid value: "{bad}": {SUBDOMAIN}'
            for at, bad in enumerate(["", "_&$%#", "TEST"])
        ),
        'exemptions.runtimeClasses[4]: Duplicate value: "testing"',
        'exemptions.usernames[0]: Invalid value: "": username must not be empty',
        'exemptions.usernames[2]: Duplicate value: "testing"',
    ]
    assert fault(configuration(exemptions=exemptions)) == f"PodSecurity invalid: [{', '.join(expected)}]"


@pytest.mark.parametrize("file", [{}, configuration(defaults={"enforce": "baseline", "warn": "baseline"})])
def test_the_flag_overrides_the_enforced_level(file: JSONObject) -> None:
    found = standards_of({**file, "pod-security": "restricted"})
    assert str(found.policies.defaults.enforce) == "restricted:latest"
    assert found.policies.defaults.warn == standards_of(file).policies.defaults.warn


def test_the_flag_does_not_hide_other_errors() -> None:
    with pytest.raises(ConfigurationError, match="Object 'Kind' is missing"):
        standards_of({"pod-security": "restricted", "defaults": {"warn": "baseline"}})
    with pytest.raises(ConfigurationError, match="must be one of privileged, baseline, restricted"):
        standards_of({"pod-security": "strict"})
