"""Registries of images over real HTTPS, and signatures as cosign makes them, with keys of every kind that it has.

::

    with registry() as images:
        digest = images.push("shop/web", "1.0")
        images.sign("shop/web", digest, key)
        ...  # images.host, images.ca_file(tmp_path), images.received
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import dataclasses
import functools
import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa

from pratique.images.signatures import PublicKey, load_public_key
from support.webhook_servers import Behaviour, Received, WebhookServer, respond, serve

JSON = Any
MANIFEST = "application/vnd.oci.image.manifest.v1+json"
INDEX = "application/vnd.oci.image.index.v1+json"
BUNDLE = "application/vnd.dev.sigstore.bundle.v0.3+json"
PAYLOAD = "application/vnd.dev.cosign.simplesigning.v1+json"
SIGNATURE = "dev.cosignproject.cosign/signature"
SIGNING = "https://sigstore.dev/cosign/sign/v1"

_PrivateKey = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey | ed25519.Ed25519PrivateKey


@dataclasses.dataclass(frozen=True, slots=True)
class Signer:
    """A private key, and how cosign signs with it."""

    private: _PrivateKey
    digest: hashes.HashAlgorithm = dataclasses.field(default_factory=hashes.SHA256)

    @property
    def pem(self) -> bytes:
        """The public key, as in ``cosign.pub``."""
        form = serialization.PublicFormat.SubjectPublicKeyInfo
        return self.private.public_key().public_bytes(serialization.Encoding.PEM, form)

    @property
    def public(self) -> PublicKey:
        """The public key, loaded."""
        return load_public_key(self.pem, "cosign.pub")

    def sign(self, content: bytes) -> bytes:
        """Sign."""
        match self.private:
            case ec.EllipticCurvePrivateKey():
                return self.private.sign(content, ec.ECDSA(self.digest))
            case rsa.RSAPrivateKey():
                return self.private.sign(content, padding.PKCS1v15(), self.digest)
            case ed25519.Ed25519PrivateKey():
                return self.private.sign(content)


_KINDS: Mapping[str, Callable[[], Signer]] = {
    "P-256": lambda: Signer(ec.generate_private_key(ec.SECP256R1())),
    "P-384": lambda: Signer(ec.generate_private_key(ec.SECP384R1())),
    "P-384 with SHA-384": lambda: Signer(ec.generate_private_key(ec.SECP384R1()), hashes.SHA384()),
    "P-521 with SHA-512": lambda: Signer(ec.generate_private_key(ec.SECP521R1()), hashes.SHA512()),
    "RSA": lambda: Signer(rsa.generate_private_key(65537, 2048)),
    "Ed25519": lambda: Signer(ed25519.Ed25519PrivateKey.generate()),
}
KINDS = tuple(_KINDS)
"""The kinds of keys."""


@functools.cache
def signer(kind: str = "P-256", name: str = "") -> Signer:
    """A key; for another name it is another one."""
    del name
    return _KINDS[kind]()


def payload(digest: str, *, reference: str = "shop", kind: str = "", **annotations: JSON) -> bytes:
    """A payload of simple signing as cosign writes it."""
    return json.dumps(
        {
            "critical": {
                "identity": {"docker-reference": reference},
                "image": {"docker-manifest-digest": digest},
                "type": kind or "cosign container image signature",
            },
            "optional": annotations or None,
        }
    ).encode()


def statement(digest: str, *, predicate: str = SIGNING, annotations: JSON = None) -> bytes:
    """An in-toto statement as cosign 3 writes it."""
    subject = {"digest": {"sha256": digest.removeprefix("sha256:")}}
    if annotations:
        subject["annotations"] = annotations
    return json.dumps(
        {
            "_type": "https://in-toto.io/Statement/v1",
            "subject": [subject],
            "predicateType": predicate,
            "predicate": {},
        }
    ).encode()


def bundle(content: bytes, by: Signer, *, payload_type: str = "application/vnd.in-toto+json") -> bytes:
    """A bundle with a signed envelope."""
    signed = b"DSSEv1 %d %b %d %b" % (len(payload_type), payload_type.encode(), len(content), content)
    return json.dumps(
        {
            "mediaType": BUNDLE,
            "verificationMaterial": {"publicKey": {"hint": "key"}},
            "dsseEnvelope": {
                "payload": base64.b64encode(content).decode(),
                "payloadType": payload_type,
                "signatures": [{"sig": base64.b64encode(by.sign(signed)).decode()}],
            },
        }
    ).encode()


def digest_of(content: bytes) -> str:
    """The digest of a blob or manifest."""
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


class ImageRegistry:
    """What a registry holds, and how it answers."""

    def __init__(self) -> None:
        """Hold nothing."""
        self.manifests: dict[tuple[str, str], bytes] = {}
        """By repository, and digest or tag."""
        self.blobs: dict[str, bytes] = {}
        self.behaviours: dict[str, Behaviour] = {}
        """What to do instead for a path, or for the beginning of one."""
        self.server: WebhookServer
        self.has_referrers_api = True
        self.tells_digests = True

    @property
    def host(self) -> str:
        """The host of references."""
        return f"localhost:{self.server.port}"

    @property
    def received(self) -> list[Received]:
        """Every request, in order."""
        return self.server.received

    def paths(self) -> list[str]:
        """The paths of the requests, without the repository of all of them."""
        return [received.path.removeprefix("/v2/shop/web/") for received in self.received]

    def ca_file(self, folder: Path) -> Path:
        """A file with the authority of its certificate."""
        file = folder / "registries.pem"
        file.write_bytes(self.server.ca_bundle)
        return file

    def put(self, repository: str, tag: str, manifest: JSON) -> str:
        """Store a manifest."""
        content = json.dumps(manifest).encode()
        digest = digest_of(content)
        self.manifests[repository, digest] = content
        if tag:
            self.manifests[repository, tag] = content
        return digest

    def push(self, repository: str, tag: str = "", text: str = "") -> str:
        """Push an image without layers; another text makes another image."""
        config = self.blob(text.encode(), "application/vnd.oci.image.config.v1+json")
        return self.put(
            repository, tag, {"schemaVersion": 2, "mediaType": MANIFEST, "config": config, "layers": []}
        )

    def blob(self, content: bytes, media_type: str, **annotations: str) -> JSON:
        """Store a blob, and describe it."""
        digest = digest_of(content)
        self.blobs[digest] = content
        return {
            "mediaType": media_type,
            "digest": digest,
            "size": len(content),
            **({"annotations": annotations} if annotations else {}),
        }

    def sign(
        self, repository: str, digest: str, by: Signer, content: bytes | None = None, **annotations: JSON
    ) -> None:
        """Add a payload and its signature to the tag of a digest; ``content`` is another payload."""
        content = content or payload(digest, reference=f"{self.host}/{repository}", **annotations)
        self.add_signature(repository, digest, content, base64.b64encode(by.sign(content)).decode())

    def add_signature(self, repository: str, digest: str, content: bytes, signature: str) -> None:
        """Add a payload with whatever as its signature."""
        tag = f"{digest.replace(':', '-')}.sig"
        layer = self.blob(content, PAYLOAD, **{SIGNATURE: signature})
        before = json.loads(self.manifests.get((repository, tag), b'{"layers": []}'))
        self.put(
            repository, tag, {"schemaVersion": 2, "mediaType": MANIFEST, "layers": [*before["layers"], layer]}
        )

    def attach(
        self, repository: str, digest: str, content: bytes, *, predicate: str = "", kind: str = BUNDLE
    ) -> None:
        """Let a bundle refer to an image, with the predicate that its descriptor tells of, if any."""
        manifest = {
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "artifactType": kind,
            "layers": [self.blob(content, BUNDLE)],
            "subject": {"digest": digest, "mediaType": MANIFEST},
        }
        described: JSON = {
            "mediaType": MANIFEST,
            "digest": self.put(repository, "", manifest),
            "artifactType": kind,
        }
        if predicate:
            described["annotations"] = {"dev.sigstore.bundle.predicateType": predicate}
        tag = digest.replace(":", "-")
        before = json.loads(self.manifests.get((repository, tag), b'{"manifests": []}'))
        self.put(
            repository,
            tag,
            {"schemaVersion": 2, "mediaType": INDEX, "manifests": [*before["manifests"], described]},
        )

    async def answer(self, received: Received, writer: asyncio.StreamWriter) -> None:
        """Answer a request."""
        for beginning, behaviour in self.behaviours.items():
            if received.path.startswith(beginning):
                await behaviour(received, writer)
                return
        content, media_type = self._find(received.path.removeprefix("/v2/"))
        if content is None:
            await failing(404)(received, writer)
            return
        headers = {"Docker-Content-Digest": digest_of(content)} if self.tells_digests else {}
        if received.method == "HEAD":
            headers["Content-Length"], content = str(len(content)), b""
        await respond(200, content, content_type=media_type, headers=headers)(received, writer)

    def _find(self, path: str) -> tuple[bytes | None, str]:
        repository, kind, reference = path.rsplit("/", 2)
        if kind == "blobs":
            return self.blobs.get(reference), "application/octet-stream"
        if kind == "referrers":
            empty = json.dumps({"schemaVersion": 2, "mediaType": INDEX, "manifests": []}).encode()
            found = self.manifests.get((repository, reference.replace(":", "-")), empty)
            return (found if self.has_referrers_api else None), INDEX
        return self.manifests.get((repository, reference)), MANIFEST


def failing(status: int) -> Behaviour:
    """Answer with an error, and a text where one may be."""

    async def behave(received: Received, writer: asyncio.StreamWriter) -> None:
        body = b"" if received.method == "HEAD" else b"secrets of the registry"
        await respond(status, body)(received, writer)

    return behave


@contextlib.contextmanager
def registry() -> Iterator[ImageRegistry]:
    """Run an empty registry over TLS, with a certificate of the authority of all test servers."""
    images = ImageRegistry()
    with serve({"": images.answer}) as images.server:
        yield images


def asking_for_tokens(images: ImageRegistry, *, realm: str = "", login: str = "") -> Behaviour:
    """Let a registry ask for tokens, which it issues at ``/token`` to everybody, or to ``login`` (user:password)."""
    wanted = f"Basic {base64.b64encode(login.encode()).decode()}" if login else None

    async def issue(received: Received, writer: asyncio.StreamWriter) -> None:
        if received.headers.get("authorization") != wanted:
            await respond(401, b"who are you?")(received, writer)
            return
        await respond(200, b'{"token": "opaque", "expires_in": 300}')(received, writer)

    async def guard(received: Received, writer: asyncio.StreamWriter) -> None:
        if received.headers.get("authorization") == "Bearer opaque":
            del images.behaviours["/v2/"]
            await images.answer(received, writer)
            images.behaviours["/v2/"] = guard
            return
        where = realm or f"https://{images.host}/token"
        challenge = f'Bearer realm="{where}",service="registry",scope="repository:shop/web:pull,push,delete"'
        await respond(401, headers={"WWW-Authenticate": challenge})(received, writer)

    images.behaviours["/token"] = issue
    images.behaviours["/v2/"] = guard
    return guard
