"""What a service hosts, from its flags to its end."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from pratique.admission.controllers import MUTATE, VALIDATE, Controller, Handlers, Phase
from pratique.apimachinery.errors import ConfigurationError
from pratique.cluster.store import Cluster
from pratique.configuration.settings import ChainSettings
from pratique.hosting import services as hosting_module
from pratique.hosting.catalogue import Catalogue
from pratique.hosting.running import ValidatorHost
from pratique.hosting.services import host_chain
from support.services import controllers

CONFIGURATION = """
apiVersion: apiserver.config.k8s.io/v1
kind: AdmissionConfiguration
plugins:
- name: DefaultTolerationSeconds
  configuration: {defaultNotReadyTolerationSeconds: ten}
"""


def closing(name: str, closed: list[str], error: Exception | None = None) -> Controller:
    """A controller that notes when it is closed, and may fail to."""

    async def close() -> None:
        closed.append(name)
        if error is not None:
            raise error

    handlers = Handlers(validate=controllers.allowing, close=close)
    return Controller(name=name, summary="", phases=VALIDATE, build=lambda _: handlers, default=True)


def test_the_chain_and_its_cluster_are_loaded(tmp_path: Path) -> None:
    file = tmp_path / "shop.yaml"
    file.write_text("apiVersion: v1\nkind: Namespace\nmetadata: {name: shop}\n")
    settings = ChainSettings(admission_control=("AlwaysDeny", "AlwaysAdmit"), cluster=(tmp_path,))

    async def run() -> None:
        async with host_chain(settings, Phase.VALIDATE, ValidatorHost) as chain:
            assert [hosted.controller.name for hosted in chain.controllers] == ["AlwaysDeny", "AlwaysAdmit"]
            assert chain.cluster.get("", "namespaces", "shop") is not None
            assert chain.cluster.get("", "namespaces", "other") is None

    asyncio.run(run())


def test_without_cluster_files_every_namespace_exists() -> None:
    async def run() -> None:
        async with host_chain(ChainSettings(), Phase.VALIDATE, ValidatorHost) as chain:
            assert chain.cluster.get("", "namespaces", "any") is not None
            assert chain.cluster.list("", "pods") == ()

    asyncio.run(run())


def test_every_controller_is_closed_even_if_closing_one_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    closed: list[str] = []
    catalogue = Catalogue((closing("a", closed), closing("b", closed, OSError("busy")), closing("c", closed)))
    monkeypatch.setattr(hosting_module, "load_catalogue", lambda: catalogue)

    async def run() -> None:
        async with host_chain(ChainSettings(), Phase.VALIDATE, ValidatorHost):
            assert closed == []

    with pytest.raises(OSError, match="busy"):
        asyncio.run(run())
    assert sorted(closed) == ["a", "b", "c"]


def test_background_work_runs_only_for_controllers_with_a_handler_for_the_phase(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    noted: list[object] = []

    async def run_in_background(cluster: Cluster) -> None:
        try:
            noted.append(cluster)
            await asyncio.Event().wait()
        finally:
            noted.append("cancelled")

    async def close() -> None:
        noted.append("closed")

    here = Handlers(validate=controllers.allowing, run_in_background=run_in_background, close=close)
    there = Handlers(mutate=controllers.allowing, run_in_background=run_in_background, close=close)
    catalogue = Catalogue(
        (
            Controller(name="A", summary="", phases=VALIDATE, build=lambda _: here, default=True),
            Controller(name="B", summary="", phases=MUTATE, build=lambda _: there, default=True),
        )
    )
    monkeypatch.setattr(hosting_module, "load_catalogue", lambda: catalogue)

    async def run() -> None:
        async with host_chain(ChainSettings(), Phase.VALIDATE, ValidatorHost) as chain:
            await asyncio.sleep(0)
            assert noted == [chain.cluster]
            assert [hosted.controller.name for hosted in chain.controllers] == ["A"]

    asyncio.run(run())
    assert noted[1:] == ["cancelled", "closed", "closed"]


def test_failed_background_work_ends_alone_and_is_logged_at_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def run_in_background(cluster: Cluster) -> None:
        raise OSError(f"secret of {cluster}")

    handlers = Handlers(validate=controllers.allowing, run_in_background=run_in_background)
    hosted = Controller(name="A", summary="", phases=VALIDATE, build=lambda _: handlers, default=True)
    monkeypatch.setattr(hosting_module, "load_catalogue", lambda: Catalogue((hosted,)))

    async def run() -> None:
        async with host_chain(ChainSettings(), Phase.VALIDATE, ValidatorHost):
            while not caplog.records:  # noqa: ASYNC110 - the log is no event that could be waited for
                await asyncio.sleep(0)

    asyncio.run(asyncio.wait_for(run(), 120))
    (record,) = caplog.records
    assert (record.__dict__["controller"], record.__dict__["reason"]) == ("A", "OSError")


def test_unusable_files_and_flags_are_rejected(tmp_path: Path) -> None:
    file = tmp_path / "admission.yaml"
    file.write_text(CONFIGURATION)

    async def run(settings: ChainSettings) -> None:
        async with host_chain(settings, Phase.VALIDATE, ValidatorHost):
            pass

    for settings, words in (
        (ChainSettings(admission_control=("Nobody",)), 'plugin "Nobody" is unknown'),
        (ChainSettings(cluster=(tmp_path / "none",)), "none"),
        (ChainSettings(admission_control_config_file=tmp_path / "none.yaml"), "none.yaml"),
        (ChainSettings(admission_control_config_file=file), "DefaultTolerationSeconds"),
    ):
        with pytest.raises(ConfigurationError, match=words):
            asyncio.run(run(settings))
