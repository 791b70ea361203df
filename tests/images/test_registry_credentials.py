from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pratique.apimachinery.errors import ConfigurationError
from pratique.images.registry_credentials import RegistryLogin, read_registry_credentials


def written(folder: Path, config: Any) -> Path:
    file = folder / "config.json"
    file.write_bytes(config if isinstance(config, bytes) else json.dumps(config).encode())
    return file


def test_logins_are_those_that_docker_writes(tmp_path: Path) -> None:
    auths = {
        "https://hub.example.com/v1/": {"auth": "Y2k6cDphc3M="},
        "R.example.com": {"username": "ci", "password": "secret", "email": "a@example.com"},
        "empty.example.com": {},
    }
    credentials = read_registry_credentials(
        written(tmp_path, {"auths": auths, "detachKeys": "ctrl-e"}), "--flag"
    )
    assert credentials.login("hub.example.com") == RegistryLogin("ci", "p:ass")
    assert credentials.login("r.example.com") == RegistryLogin("ci", "secret")
    assert credentials.login("empty.example.com") is None
    assert credentials.login("other.example.com") is None
    assert not credentials.has_helpers
    assert "p:ass" not in repr(credentials)


@pytest.mark.parametrize(
    "config", [{"credsStore": "desktop"}, {"credHelpers": {"r.example.com": "ecr-login"}}]
)
def test_programs_that_know_credentials_are_known_and_not_run(tmp_path: Path, config: Any) -> None:
    assert read_registry_credentials(written(tmp_path, config), "--flag").has_helpers


@pytest.mark.parametrize(
    "config",
    [
        b"",
        b"not JSON: secret",
        b"[" * 100_000,
        b" " * (1024 * 1024 + 1),
        {"auths": {"r.example.com": "secret"}},
        {"auths": {"r.example.com": {"auth": "secret"}}},
        {"auths": {"r.example.com": {"auth": "c2VjcmV0"}}},
        {"auths": {"r.example.com": {"identitytoken": "secret"}}},
        {"auths": {"r example": {"auth": "Y2k6c2VjcmV0"}}},
    ],
)
def test_a_bad_file_is_told_without_its_secrets(tmp_path: Path, config: Any) -> None:
    with pytest.raises(ConfigurationError) as refused:
        read_registry_credentials(written(tmp_path, config), "--registry-config")
    assert str(refused.value).startswith("--registry-config ")
    assert "secret" not in str(refused.value)


def test_a_missing_file_is_told(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="cannot be read: No such file"):
        read_registry_credentials(tmp_path / "none", "--registry-config")
