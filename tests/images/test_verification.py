"""Images of a real registry over TLS, with signatures in the formats of cosign, good and forged."""

from __future__ import annotations

import asyncio
import base64
import json

import pytest

from pratique.images.policies import DefaultAction, ImageRule, ImageVerificationPolicy, KeyRequirement
from pratique.images.references import RepositoryPattern
from pratique.images.registries import BLOB_LIMIT, RegistryClient
from pratique.images.verification import MAX_CONCURRENT_IMAGES, MAX_SIGNATURES, ImageVerifier
from support.image_registries import (
    KINDS,
    ImageRegistry,
    bundle,
    failing,
    payload,
    registry,
    signer,
    statement,
)
from support.image_verifications import Verifying
from support.webhook_servers import Received, closed_port, hanging

WEB = "shop/web"


@pytest.mark.parametrize("kind", KINDS)
def test_a_signed_image_is_accepted(images: ImageRegistry, verifying: Verifying, kind: str) -> None:
    digest = images.push(WEB, "1.0")
    images.sign(WEB, digest, signer(kind))
    verdict = verifying.verify("shop/web:1.0", verifying.rule(keys=(signer(kind).public,)))
    assert (verdict.allowed, verdict.reason, verdict.digest) == (True, "", digest)
    assert verdict.keys == ("cosign.pub",)


@pytest.mark.parametrize("has_api", [True, False])
@pytest.mark.parametrize("kind", ["P-256", "P-384 with SHA-384", "Ed25519"])
def test_a_bundle_that_refers_to_an_image_is_a_signature(
    images: ImageRegistry, verifying: Verifying, kind: str, *, has_api: bool
) -> None:
    images.has_referrers_api = has_api
    digest = images.push(WEB, "1.0")
    images.attach(WEB, digest, bundle(statement(digest), signer(kind)))
    assert verifying.verify("shop/web:1.0", verifying.rule(keys=(signer(kind).public,))).allowed


def test_an_image_by_digest_is_not_resolved(images: ImageRegistry, verifying: Verifying) -> None:
    digest = images.push(WEB, "1.0")
    images.sign(WEB, digest, signer())
    assert verifying.verify(f"shop/web:moved@{digest}").allowed
    assert all("manifests/moved" not in path for path in images.paths())


def test_a_registry_that_tells_no_digests_is_asked_for_the_manifest(
    images: ImageRegistry, verifying: Verifying
) -> None:
    images.tells_digests = False
    images.sign(WEB, images.push(WEB, "1.0"), signer())
    assert verifying.verify().allowed


def refusal(verifying: Verifying, name: str = "shop/web:1.0") -> str:
    verdict = verifying.verify(name)
    assert not verdict.allowed
    return verdict.reason


def test_an_unsigned_image_is_refused(images: ImageRegistry, verifying: Verifying) -> None:
    images.push(WEB, "1.0")
    assert refusal(verifying) == "it has no signature"
    assert refusal(verifying, "shop/web:2.0") == f"the registry has no such tag: {images.host}/{WEB}:2.0"


def test_a_signature_of_another_key_is_refused(images: ImageRegistry, verifying: Verifying) -> None:
    images.sign(WEB, images.push(WEB, "1.0"), signer(name="another"))
    assert refusal(verifying) == "no signature of it is good: no key of the policy made it (1)"


def test_a_signature_of_another_image_is_refused(images: ImageRegistry, verifying: Verifying) -> None:
    other = images.push("shop/other", "1.0", "another")
    digest = images.push(WEB, "1.0")
    images.sign(WEB, digest, signer(), payload(other))
    images.attach(WEB, digest, bundle(statement(other), signer()))
    assert refusal(verifying) == "no signature of it is good: it is of another image (2)"


def test_a_changed_payload_is_refused(images: ImageRegistry, verifying: Verifying) -> None:
    digest = images.push(WEB, "1.0")
    good = base64.b64encode(signer().sign(payload("sha256:" + "a" * 64))).decode()
    images.add_signature(WEB, digest, payload(digest), good)
    assert refusal(verifying) == "no signature of it is good: no key of the policy made it (1)"


def test_an_attestation_is_no_signature(images: ImageRegistry, verifying: Verifying) -> None:
    digest = images.push(WEB, "1.0")
    scan = statement(digest, predicate="https://cosign.sigstore.dev/attestation/vuln/v1")
    images.attach(WEB, digest, bundle(scan, signer()))
    assert "attests something, and is not a signature" in refusal(verifying)
    before = len(images.received)
    images.attach(
        WEB, digest, bundle(scan, signer()), predicate="https://cosign.sigstore.dev/attestation/vuln/v1"
    )
    verifying.verify()
    assert sum("/blobs/" in received.path for received in images.received[before:]) == 1


def test_a_tag_that_moved_is_verified_again(images: ImageRegistry, verifying: Verifying) -> None:
    images.sign(WEB, images.push(WEB, "1.0"), signer())
    policy = ImageVerificationPolicy((verifying.rule(),))

    async def verify_twice(client: RegistryClient) -> list[bool]:
        verifier = ImageVerifier(policy, client, cache_seconds=300)
        name = f"{images.host}/shop/web:1.0"
        before = await verifier.verify(name, 30)
        images.push(WEB, "1.0", "a poisoned one")
        return [before.allowed, (await verifier.verify(name, 30)).allowed]

    assert verifying.ask(verify_twice) == [True, False]


def test_what_was_verified_is_not_asked_for_again_until_its_time_is_up(
    images: ImageRegistry, verifying: Verifying
) -> None:
    digest = images.push(WEB, "1.0")
    images.sign(WEB, digest, signer())
    policy, now = ImageVerificationPolicy((verifying.rule(),)), [0.0]

    async def verify_often(client: RegistryClient) -> list[int]:
        verifier = ImageVerifier(policy, client, cache_seconds=300, clock=lambda: now[0])
        counts = []
        for now[0] in (0.0, 299.0, 301.0):
            verdict = await verifier.verify(f"{images.host}/shop/web@{digest}", 30)
            assert verdict.allowed
            assert verdict.keys == ("cosign.pub",)
            counts.append(len(images.received))
        return counts

    first, second, third = verifying.ask(verify_often)
    assert first == second < third


def test_a_refusal_is_not_kept(images: ImageRegistry, verifying: Verifying) -> None:
    digest = images.push(WEB, "1.0")
    policy = ImageVerificationPolicy((verifying.rule(),))

    async def sign_meanwhile(client: RegistryClient) -> list[bool]:
        verifier = ImageVerifier(policy, client, cache_seconds=300)
        name = f"{images.host}/shop/web:1.0"
        before = await verifier.verify(name, 30)
        images.sign(WEB, digest, signer())
        return [before.allowed, (await verifier.verify(name, 30)).allowed]

    assert verifying.ask(sign_meanwhile) == [False, True]


def test_every_key_must_have_signed_where_all_are_required(
    images: ImageRegistry, verifying: Verifying
) -> None:
    digest = images.push(WEB, "1.0")
    keys = (signer().public, signer("Ed25519").public)
    rule = verifying.rule(keys=keys, require=KeyRequirement.ALL)
    images.sign(WEB, digest, signer())
    assert verifying.verify("shop/web:1.0", rule).reason == "it is not signed with cosign.pub"
    images.attach(WEB, digest, bundle(statement(digest), signer("Ed25519")))
    assert verifying.verify("shop/web:1.0", rule).allowed


def test_every_rule_that_matches_must_hold(images: ImageRegistry, verifying: Verifying) -> None:
    digest = images.push(WEB, "1.0")
    images.sign(WEB, digest, signer())
    rules = (verifying.rule(keys=()), verifying.rule(), verifying.rule(keys=(signer("Ed25519").public,)))
    assert verifying.verify("shop/web:1.0", *rules[:2]).allowed
    assert not verifying.verify("shop/web:1.0", *rules).allowed
    assert not verifying.verify("shop/web:1.0", *reversed(rules)).allowed


def test_annotations_must_be_those_that_were_signed(images: ImageRegistry, verifying: Verifying) -> None:
    digest = images.push(WEB, "1.0")
    images.sign(WEB, digest, signer(), env="test")
    images.sign(WEB, digest, signer(name="another"), env="prod")
    rule = verifying.rule(annotations={"env": "prod"})
    verdict = verifying.verify("shop/web:1.0", rule)
    assert verdict.reason == "no signature of it with the right key has the annotations env=prod"
    images.sign(WEB, digest, signer(), env="prod", signed="ci")
    assert verifying.verify("shop/web:1.0", rule).allowed


def test_a_signature_counts_only_for_its_repository_where_that_is_asked_for(
    images: ImageRegistry, verifying: Verifying
) -> None:
    digest = images.push(WEB, "1.0")
    images.push("shop/admin", "1.0")
    images.sign(WEB, digest, signer())
    tag = f"{digest.replace(':', '-')}.sig"
    images.manifests["shop/admin", tag] = images.manifests[WEB, tag]
    rule = verifying.rule(match_reference=True)
    assert verifying.verify("shop/web:1.0", rule).allowed
    assert verifying.verify("shop/admin:1.0").allowed
    verdict = verifying.verify("shop/admin:1.0", rule)
    assert verdict.reason == f"no signature of it with the right key is for {images.host}/shop/admin"


def test_a_tag_is_refused_where_a_digest_is_required(images: ImageRegistry, verifying: Verifying) -> None:
    digest = images.push(WEB, "1.0")
    images.sign(WEB, digest, signer())
    rule = verifying.rule(require_digest=True)
    assert "named by its digest" in verifying.verify("shop/web:1.0", rule).reason
    assert not images.received
    assert verifying.verify(f"shop/web@{digest}", rule).allowed


@pytest.mark.parametrize(("action", "allowed"), [(DefaultAction.DENY, False), (DefaultAction.ALLOW, True)])
def test_images_without_a_rule_are_decided_without_asking_anybody(
    images: ImageRegistry, verifying: Verifying, action: DefaultAction, *, allowed: bool
) -> None:
    policy = ImageVerificationPolicy((verifying.rule(),), action)

    async def verify(client: RegistryClient) -> list[bool]:
        verdicts = await ImageVerifier(policy, client).verify_all(
            ["127.0.0.1:1/web", "127.0.0.1:1/web", "not an image"], 30
        )
        return [verdict.allowed for verdict in verdicts]

    assert verifying.ask(verify) == [allowed, False]
    assert not images.received


def test_images_that_need_no_signature_are_accepted_without_asking(
    images: ImageRegistry, verifying: Verifying
) -> None:
    assert verifying.verify("shop/web:1.0", verifying.rule(keys=())).allowed
    assert not images.received


def test_a_bad_signature_beside_a_good_one_does_no_harm(images: ImageRegistry, verifying: Verifying) -> None:
    digest = images.push(WEB, "1.0")
    images.add_signature(WEB, digest, b"not JSON", "!")
    images.add_signature(WEB, digest, b"x" * (BLOB_LIMIT + 1), "c2ln")
    images.sign(WEB, digest, signer(name="another"))
    images.attach(WEB, digest, b"{}")
    images.attach(WEB, digest, bundle(statement(digest), signer()))
    assert verifying.verify().allowed


def test_only_so_many_signatures_are_looked_at(images: ImageRegistry, verifying: Verifying) -> None:
    digest = images.push(WEB, "1.0")
    layer = images.blob(payload(digest), "application/vnd.dev.cosign.simplesigning.v1+json")
    tag = f"{digest.replace(':', '-')}.sig"
    images.put(WEB, tag, {"layers": [layer] * (MAX_SIGNATURES + 5)})
    images.attach(WEB, digest, bundle(statement(digest), signer()))
    assert f"more than {MAX_SIGNATURES} are not looked at" in refusal(verifying)
    assert (
        sum("/blobs/" in path for path in (received.path for received in images.received)) == MAX_SIGNATURES
    )


def test_only_so_many_referrers_are_looked_at(images: ImageRegistry, verifying: Verifying) -> None:
    digest = images.push(WEB, "1.0")
    described = [{"digest": f"sha256:{number:064}"} for number in range(MAX_SIGNATURES + 5)]
    images.put(WEB, digest.replace(":", "-"), {"manifests": described})
    assert f"more than {MAX_SIGNATURES} are not looked at" in refusal(verifying)
    assert sum("manifests/sha256:" in path for path in images.paths()) == MAX_SIGNATURES


def test_images_do_not_wait_for_those_of_another_registry(
    images: ImageRegistry, verifying: Verifying
) -> None:
    images.sign(WEB, images.push(WEB, "1.0"), signer())
    with registry() as silent:
        silent.behaviours["/"] = hanging()
        rule = ImageRule(
            images=tuple(RepositoryPattern(f"{host}/**") for host in (silent.host, images.host)),
            keys=(signer().public,),
        )

        async def verify(client: RegistryClient) -> bool:
            verifier = ImageVerifier(ImageVerificationPolicy((rule,)), client)
            waiting = [
                asyncio.ensure_future(verifier.verify(f"{silent.host}/shop/web:{number}", 300))
                for number in range(MAX_CONCURRENT_IMAGES)
            ]
            await asyncio.sleep(0)
            try:
                async with asyncio.timeout(120):
                    return (await verifier.verify(f"{images.host}/shop/web:1.0", 300)).allowed
            finally:
                for task in waiting:
                    task.cancel()
                await asyncio.wait(waiting)

        assert verifying.ask(verify)


def test_a_blob_that_was_swapped_is_not_believed(images: ImageRegistry, verifying: Verifying) -> None:
    digest = images.push(WEB, "1.0")
    images.sign(WEB, digest, signer())
    [blob] = [key for key, content in images.blobs.items() if b"critical" in content]
    images.blobs[blob] += b" "
    assert "served something else" in refusal(verifying)


@pytest.mark.parametrize(
    ("manifest", "reason"),
    [
        (b"<html>", "served what is not a manifest"),
        (b"[" * 100_000, "served what is not a manifest"),
        (json.dumps({"layers": [{"digest": 1}]}).encode(), "served what is not a manifest"),
        (b" " * (4 * 1024 * 1024 + 1), "response body is larger than 4194304 bytes"),
        (
            b'{"layers": [{"mediaType": "application/vnd.dev.cosign.simplesigning.v1+json", "digest": "../x"}]}',
            "names a blob by what is not a digest",
        ),
    ],
    ids=["HTML", "deep", "mistyped", "huge", "path"],
)
def test_a_manifest_of_signatures_that_is_none_is_refused(
    images: ImageRegistry, verifying: Verifying, manifest: bytes, reason: str
) -> None:
    digest = images.push(WEB, "1.0")
    images.manifests[WEB, f"{digest.replace(':', '-')}.sig"] = manifest
    assert reason in refusal(verifying)


def test_an_image_is_refused_while_its_registry_does_not_answer(
    images: ImageRegistry, verifying: Verifying
) -> None:
    images.sign(WEB, images.push(WEB, "1.0"), signer())
    images.behaviours["/v2/"] = hanging()
    verdict = verifying.verify("shop/web:1.0", seconds=0.3)
    assert not verdict.allowed
    assert "in time" in verdict.reason


@pytest.mark.parametrize("status", [400, 401, 403, 429, 500, 503])
def test_an_image_is_refused_while_its_registry_answers_with_errors(
    images: ImageRegistry, verifying: Verifying, status: int
) -> None:
    images.sign(WEB, images.push(WEB, "1.0"), signer())
    images.behaviours["/v2/"] = failing(status)
    reason = refusal(verifying)
    assert reason.startswith(f"{images.host}: answered {status}")
    assert "secrets" not in reason


def test_an_image_is_refused_if_nobody_listens(images: ImageRegistry, verifying: Verifying) -> None:
    images.push(WEB, "1.0")
    with closed_port() as port:
        verdict = verifying.verify("shop/web:1.0", address=f"localhost:{port}")
    assert "connection refused" in verdict.reason


def test_an_image_is_refused_if_the_name_of_its_registry_cannot_be_looked_up(verifying: Verifying) -> None:
    verdict = verifying.verify("shop/web:1.0", address="xn--a.com")
    assert "is not a name that can be looked up" in verdict.reason


def test_a_registry_that_failed_once_is_asked_again(images: ImageRegistry, verifying: Verifying) -> None:
    images.sign(WEB, images.push(WEB, "1.0"), signer())
    fail = failing(503)

    async def fail_once(received: Received, writer: asyncio.StreamWriter) -> None:
        del images.behaviours["/v2/"]
        await fail(received, writer)

    images.behaviours["/v2/"] = fail_once
    assert verifying.verify().allowed
