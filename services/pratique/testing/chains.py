"""Asking policies in tests: one by itself, or a whole chain, each as the services would."""

from __future__ import annotations

import asyncio
import concurrent.futures
import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from pratique.admission.controllers import BOTH, MUTATE, VALIDATE, Controller
from pratique.admission.reviews import Deadline, Review
from pratique.apimachinery.errors import InputError
from pratique.apimachinery.statuses import go_quoted
from pratique.configuration.settings import ChainSettings
from pratique.hosting.catalogue import Catalogue, load_catalogue
from pratique.hosting.chain_order import in_chain_order
from pratique.testing.reviews import Manifest, make_review
from pratique_frontdoor.chain.decisions import Decision
from pratique_frontdoor.engines.local import LocalEngine, LocalSources

DEFAULT_TIMEOUT_SECONDS = 10.0
"""An API server's default for a webhook."""

_PHASES = {"admit": BOTH, "mutate": MUTATE, "validate": VALIDATE}


def admit(
    policy: Controller,
    request: Review | Manifest,
    *,
    settings: Mapping[str, Any] | None = None,
    phase: str = "admit",
    timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS,
    **review: Any,
) -> Decision:
    """Ask one policy about a request, with its rules, selectors, conditions and failure policy, and nothing else.

    Args:
        policy: What ``@validator`` or ``@mutator`` made of a callable, or another :class:`pratique.Controller`.
        request: The review, or the manifest to make one of.
        settings: The settings of the policy, as an AdmissionConfiguration holds them.
        phase: ``admit`` for both phases, ``mutate`` or ``validate``.
        timeout_seconds: The time limit of the review, in seconds.
        review: What :func:`pratique.testing.make_review` takes besides a manifest.

    Raises:
        InputError: the manifest, the arguments or the settings cannot be used.
        TimeoutError: there is no decision in time.
    """
    __tracebackhide__ = True
    given = {} if settings is None else {policy.name: settings}
    chain = PolicyChain(policy, admission_control=[policy.name], settings=given)
    return chain.admit(request, phase=phase, timeout_seconds=timeout_seconds, **review)


class PolicyChain:
    """A chain with policies of one's own. Each request is decided by itself: none sees what another one has stored."""

    def __init__(
        self,
        *policies: Controller,
        config: Iterable[Path | str] = (),
        enable: Iterable[str] = (),
        disable: Iterable[str] = (),
        admission_control: Iterable[str] | None = None,
        admission_control_config_file: Path | str | None = None,
        settings: Mapping[str, Mapping[str, Any]] | None = None,
    ) -> None:
        """Read all configuration once.

        Args:
            policies: Enabled beside the default controllers, in place of installed ones of the same name.
            config: As ``--config``: files and folders of webhook configurations and policies.
            enable: As ``--enable-admission-plugins``.
            disable: As ``--disable-admission-plugins``.
            admission_control: As ``--admission-control``: exactly these, in this order.
            admission_control_config_file: As the flag of that name.
            settings: Settings of controllers by their names, in place of those of that file.

        Raises:
            InputError: a policy is no controller, or is named like another one.
            ConfigurationError: something else cannot be used.
        """
        for policy in policies:
            if not isinstance(policy, Controller):
                kind = type(policy).__name__
                raise InputError(
                    f"a policy is a Controller, such as @validator makes of a callable, not a {kind}"
                )
        exact = None if admission_control is None else tuple(admission_control)
        file = admission_control_config_file
        self._settings = ChainSettings(
            config=tuple(map(Path, config)),
            enable_admission_plugins=(
                *enable,
                *(policy.name for policy in policies if exact is None),
            ),
            disable_admission_plugins=tuple(disable),
            admission_control=exact,
            admission_control_config_file=None if file is None else Path(file),
        )
        self._sources = _sources(self._settings, _catalogue(policies), settings or {})

    def admit(
        self,
        request: Review | Manifest,
        *,
        phase: str = "admit",
        timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS,
        **review: Any,
    ) -> Decision:
        """Decide about a request.

        Args:
            request: The review, or the manifest to make one of.
            phase: ``admit`` for both phases, ``mutate`` or ``validate``.
            timeout_seconds: The time limit of the review, in seconds.
            review: What :func:`pratique.testing.make_review` takes besides a manifest.

        Raises:
            InputError: the manifest or the arguments cannot be used.
            TimeoutError: there is no decision in time.
        """
        __tracebackhide__ = True
        if phase not in _PHASES:
            raise InputError(f"phase {phase!r} is none of {', '.join(_PHASES)}")
        if not isinstance(request, Review):
            request = make_review(request, **review)
        elif review:
            raise InputError(f"a review is complete; leave out {', '.join(review)}, or give a manifest")
        decided = self._decide(request, phase, timeout_seconds)
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return asyncio.run(decided)
        # an async test has a loop of its own, in which this call cannot wait
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            return pool.submit(asyncio.run, decided).result()

    async def _decide(self, review: Review, phase: str, timeout_seconds: float) -> Decision:
        engine = LocalEngine(self._settings, review.cluster, self._sources, tells_places=True)
        try:
            return await engine.decide(review, _PHASES[phase], Deadline.after(timeout_seconds), explain=True)
        finally:
            await engine.close()


def _catalogue(policies: Sequence[Controller]) -> Catalogue:
    """The installed controllers, and the policies."""
    installed = load_catalogue()
    for policy in policies:
        known = installed.get(policy.name)
        if known is not None and known.trusted and known is not policy:
            raise InputError(f"admission controller {go_quoted(policy.name)} is already Kubernetes'")
    by_name = {controller.name: controller for controller in (*installed, *policies)}
    return Catalogue(in_chain_order(by_name.values()), installed.origins)


def _sources(
    chain: ChainSettings, catalogue: Catalogue, settings: Mapping[str, Mapping[str, Any]]
) -> LocalSources:
    """Read the files that the settings of a chain name, for another catalogue than the installed one."""
    read = LocalSources.read(dataclasses.replace(chain, enable_admission_plugins=(), admission_control=None))
    selected = catalogue.select(chain)
    sources = msgspec.structs.replace(
        read.chain,
        catalogue=catalogue,
        selected=selected,
        plugin_configurations={**read.chain.plugin_configurations, **settings},
    )
    sources.configure(selected)
    return LocalSources(sources, read.configurations)
