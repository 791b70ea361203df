"""What the flags of the chain put into it, and what they say of wrong names."""

from __future__ import annotations

import pytest

from pratique.admission.controllers import VALIDATE, Controller, Handlers
from pratique.apimachinery.errors import ConfigurationError
from pratique.configuration.settings import ChainSettings
from pratique.hosting.catalogue import Catalogue


def controller(name: str, *, default: bool = False) -> Controller:
    return Controller(
        name=name, summary=f"{name}.", phases=VALIDATE, build=lambda _: Handlers(), default=default
    )


CATALOGUE = Catalogue(
    (
        controller("AlwaysAdmit"),
        controller("NamespaceLifecycle", default=True),
        controller("LimitRanger", default=True),
        controller("Priority"),
        controller("AlwaysDeny"),
    )
)
EXCLUSIVE = (
    "admission-control and enable-admission-plugins/disable-admission-plugins flags are mutually exclusive"
)


def settings(enable: str = "", disable: str = "", exactly: str | None = None) -> ChainSettings:
    return ChainSettings(
        enable_admission_plugins=tuple(enable.split()),
        disable_admission_plugins=tuple(disable.split()),
        admission_control=None if exactly is None else tuple(exactly.split()),
    )


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        (settings(), "NamespaceLifecycle LimitRanger"),
        (settings(enable="Priority"), "NamespaceLifecycle LimitRanger Priority"),
        (settings(enable="AlwaysDeny AlwaysAdmit"), "AlwaysAdmit NamespaceLifecycle LimitRanger AlwaysDeny"),
        (settings(enable="LimitRanger"), "NamespaceLifecycle LimitRanger"),
        (settings(disable="LimitRanger"), "NamespaceLifecycle"),
        (settings(disable="Priority"), "NamespaceLifecycle LimitRanger"),
        (settings(disable="ResourceQuota"), "NamespaceLifecycle LimitRanger"),
        (settings("Priority", "LimitRanger"), "NamespaceLifecycle Priority"),
        (settings(exactly="AlwaysAdmit"), "AlwaysAdmit"),
        (
            settings(exactly="LimitRanger AlwaysAdmit NamespaceLifecycle"),
            "LimitRanger AlwaysAdmit NamespaceLifecycle",
        ),
        (settings(exactly=""), ""),
    ],
)
def test_the_flags_make_the_chain(flags: ChainSettings, expected: str) -> None:
    assert [controller.name for controller in CATALOGUE.select(flags)] == expected.split()


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        (
            settings(enable="Foo"),
            'enable-admission-plugins plugin "Foo" is unknown; `pratique plugins` lists all',
        ),
        (
            settings(disable="Foo"),
            'disable-admission-plugins plugin "Foo" is unknown; `pratique plugins` lists all',
        ),
        (settings(exactly="Foo"), 'admission-control plugin "Foo" is unknown; `pratique plugins` lists all'),
        (
            settings(enable="LimitRangr"),
            'enable-admission-plugins plugin "LimitRangr" is unknown; did you mean "LimitRanger"?',
        ),
        (
            settings(disable="namespacelifecycle"),
            (
                'disable-admission-plugins plugin "namespacelifecycle" is unknown;'
                ' did you mean "NamespaceLifecycle"?'
            ),
        ),
        (
            settings(enable="PodPreset"),
            (
                'enable-admission-plugins plugin "PodPreset" is unknown;'
                " Kubernetes has or had it, Pratique does not"
            ),
        ),
        (
            settings(enable="LimitRanger Priority", disable="Priority LimitRanger"),
            "[LimitRanger Priority] in enable-admission-plugins and disable-admission-plugins overlapped",
        ),
        (
            settings(enable="Foo Bar"),
            (
                '[enable-admission-plugins plugin "Foo" is unknown; `pratique plugins` lists all,'
                ' enable-admission-plugins plugin "Bar" is unknown; `pratique plugins` lists all]'
            ),
        ),
        (
            settings(exactly="LimitRanger AlwaysAdmit LimitRanger"),
            'admission-control plugin "LimitRanger" is given twice',
        ),
        (settings(enable="Priority", exactly="AlwaysAdmit"), EXCLUSIVE),
        (settings(disable="Priority", exactly=""), EXCLUSIVE),
    ],
)
def test_wrong_flags_are_refused_in_the_api_servers_words(flags: ChainSettings, expected: str) -> None:
    with pytest.raises(ConfigurationError) as fault:
        CATALOGUE.select(flags)
    assert str(fault.value) == expected
