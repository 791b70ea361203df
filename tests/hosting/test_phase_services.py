"""The gRPC services of a phase: what they offer, count and are configured by."""

from __future__ import annotations

import asyncio

import grpc
import pytest

from pratique.admission.results import Answer, allow
from pratique.admission.reviews import Call, Review
from pratique.admission.v1 import catalogue_service_pb2, catalogue_service_pb2_grpc
from pratique.rpc.handlers import ATTEMPTS_KEY
from pratique.rpc.servers import ServerSettings
from pratique_mutator.service import MUTATOR as MUTATOR_SERVICE
from pratique_mutator.service import MutatorSettings
from pratique_validator.service import VALIDATOR as VALIDATOR_SERVICE
from pratique_validator.service import ValidatorSettings
from support.services import controllers
from support.services.controllers import hosted
from support.services.reviews import review_of
from support.services.servers import KINDS, MUTATOR, VALIDATOR, Kind, serving


@pytest.mark.parametrize(("kind", "names"), [(MUTATOR, ["both", "mutates"]), (VALIDATOR, ["both"])], ids=str)
def test_the_catalogue_lists_only_controllers_with_a_handler_for_the_phase(
    kind: Kind, names: list[str]
) -> None:
    hosts = [
        hosted("both", controllers.allowing),
        hosted("mutates", controllers.allowing, mutating_only=True),
    ]

    async def run() -> list[str]:
        async with serving(kind, *hosts) as channel:
            stub = catalogue_service_pb2_grpc.CatalogueServiceStub(channel)
            answer = await stub.Describe(catalogue_service_pb2.DescribeRequest(), timeout=60)
            return [controller.name for controller in answer.controllers]

    assert asyncio.run(run()) == names


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_a_retried_call_is_marked_in_the_review(kind: Kind) -> None:
    retries: list[bool] = []

    def noting(review: Review) -> Answer:
        retries.append(review.is_retry)
        return allow()

    async def run() -> None:
        async with serving(kind, hosted("n", noting, trusted=True)) as channel:
            request = kind.request(review_of(), [Call("n", 5)]).SerializeToString()
            method: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(
                kind.method, None, None
            )
            await method(request, timeout=10)
            await method(request, timeout=10, metadata=((ATTEMPTS_KEY, "1"),))

    asyncio.run(run())
    assert retries == [False, True]


def test_the_services_settings_differ_only_in_the_default_port() -> None:
    assert (MUTATOR_SERVICE.name, MutatorSettings().port) == ("mutator", 9001)
    assert (VALIDATOR_SERVICE.name, ValidatorSettings().port) == ("validator", 9002)
    shared = set(MutatorSettings.__dataclass_fields__)
    assert shared == set(ValidatorSettings.__dataclass_fields__)
    assert shared - set(ServerSettings.__dataclass_fields__) == {"chain"}
