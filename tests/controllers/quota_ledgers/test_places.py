"""Where charges are kept by default."""

from __future__ import annotations

from pathlib import Path

import pytest

from pratique.configuration.admission_configuration import load_plugin_configurations
from pratique.configuration.settings import ChainSettings
from pratique.controllers.quota.ledger import default_ledger_file, has_ledger_url, with_ledger_url

CONFIGURATION = """
apiVersion: apiserver.config.k8s.io/v1
kind: AdmissionConfiguration
plugins:
- name: ResourceQuota
  configuration: {apiVersion: apiserver.config.k8s.io/v1, kind: ResourceQuotaConfiguration, resource-quota-ledger: /a}
"""


@pytest.mark.parametrize(
    ("variables", "file"),
    [
        (
            {"STATE_DIRECTORY": "/var/lib/a:/var/lib/b", "XDG_STATE_HOME": "/x"},
            "/var/lib/a/pratique/quotas.sqlite",
        ),
        ({"XDG_STATE_HOME": "/x", "HOME": "/me"}, "/x/pratique/quotas.sqlite"),
        ({"XDG_STATE_HOME": "relative", "HOME": "/me"}, "/me/.local/state/pratique/quotas.sqlite"),
        ({"STATE_DIRECTORY": "", "HOME": "/me"}, "/me/.local/state/pratique/quotas.sqlite"),
    ],
)
def test_the_default_ledger_is_in_the_state_folder(
    variables: dict[str, str], file: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("STATE_DIRECTORY", "XDG_STATE_HOME", "HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert default_ledger_file() == Path(file)


def test_other_flags_name_no_ledger() -> None:
    settings = ChainSettings(plugin_flags={"ResourceQuota": {"resource-quota-sync-period": "1s"}})
    assert not has_ledger_url(settings)
    assert load_plugin_configurations(with_ledger_url(settings, "/b")) == {
        "ResourceQuota": {"resource-quota-sync-period": "1s", "resource-quota-ledger": "/b"}
    }


@pytest.mark.parametrize("url", ["", "/a"])
def test_a_flag_names_the_ledger(url: str) -> None:
    assert has_ledger_url(ChainSettings(plugin_flags={"ResourceQuota": {"resource-quota-ledger": url}}))


def test_the_admission_configuration_names_the_ledger(tmp_path: Path) -> None:
    file = tmp_path / "admission.yaml"
    file.write_text(CONFIGURATION)
    assert has_ledger_url(ChainSettings(admission_control_config_file=file))
