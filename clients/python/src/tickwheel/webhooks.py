"""Receiving webhooks: verification of Standard Webhooks signatures, alone or as middleware.

    app = verified(app, "whsec_...")          # WSGI: Flask, Django, Bottle
    app = verified_asgi(app, "whsec_...")     # ASGI: FastAPI, Starlette

The application is called for a webhook with a valid signature only, and reads its body as usual; others are answered
401, and a body over `BODY_BYTES_MAX` 413. In place of the secret stands the public key "whpk_..." of a daemon that signs by a
private key; it needs the package `cryptography`: tickwheel[ed25519]. A webhook arrives at least once: drop a `webhook-id` that was processed.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import io
import time
from typing import Any, Awaitable, Callable, Iterable, Mapping, MutableMapping

BODY_BYTES_MAX = 2 << 20  # the service sends at most 1 MiB
TOLERANCE_S = 300
SIGNATURES_MAX = 8  # by private keys; the service sends at most 2

Environ = MutableMapping[str, Any]
WsgiApp = Callable[[Environ, Callable[..., Any]], Iterable[bytes]]
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
AsgiApp = Callable[[Scope, Receive, Send], Awaitable[None]]
Check = Callable[[bytes, "list[bytes]"], bool]  # of a text and its signatures


def _decoded(secret: str, prefix: str) -> bytes:
    try:
        key = base64.b64decode(secret.removeprefix(prefix), validate=True)
    except binascii.Error as error:
        raise ValueError(f"the secret is not {prefix} and base64") from error
    if not key:
        raise ValueError("the secret is empty")
    return key


def _by_secret(key: bytes) -> Check:
    def is_signed(text: bytes, signatures: list[bytes]) -> bool:
        wanted = b"v1," + base64.b64encode(hmac.new(key, text, hashlib.sha256).digest())
        # Without a short cut: the time does not depend on which of them fits.
        return sum(hmac.compare_digest(wanted, one) for one in signatures) > 0

    return is_signed


def _by_public_key(key: bytes) -> Check:
    try:
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    except ImportError as error:
        raise ImportError("a public key whpk_ needs the package cryptography: pip install 'tickwheel[ed25519]'") from error
    public = Ed25519PublicKey.from_public_bytes(key)

    def is_signed(text: bytes, signatures: list[bytes]) -> bool:
        for one in [one for one in signatures if one.startswith(b"v1a,")][:SIGNATURES_MAX]:
            try:
                public.verify(base64.b64decode(one[4:], validate=True), text)
                return True
            except (InvalidSignature, ValueError):
                pass
        return False

    return is_signed


def is_valid(secret: str, headers: Mapping[str, str], body: bytes) -> bool:
    """Whether `body`, as received, was signed within the last five minutes: with `secret`, or by the private key whose
    public key it is. ValueError: it is neither. ImportError: a public key without the package `cryptography`."""
    is_public = secret.startswith("whpk_")
    is_signed = _by_public_key(_decoded(secret, "whpk_")) if is_public else _by_secret(_decoded(secret, "whsec_"))
    lowered = {name.lower(): value for name, value in headers.items()}
    sent_id, sent_at = lowered.get("webhook-id", ""), lowered.get("webhook-timestamp", "")
    if not sent_id or not (sent_at.isascii() and sent_at.isdigit() and len(sent_at) <= 15):
        return False
    if abs(time.time() - int(sent_at)) > TOLERANCE_S:
        return False
    return is_signed(f"{sent_id}.{sent_at}.".encode() + body, lowered.get("webhook-signature", "").encode().split(b" "))


def verified(app: WsgiApp, secret: str) -> WsgiApp:
    """The WSGI application behind a check of every request."""
    is_valid(secret, {}, b"")  # a wrong secret is told at the start

    def checked(environ: Environ, start_response: Callable[..., Any]) -> Iterable[bytes]:
        length = environ.get("CONTENT_LENGTH") or "0"
        size = int(length) if length.isdigit() else BODY_BYTES_MAX + 1
        if size > BODY_BYTES_MAX:
            start_response("413 Content Too Large", [("Content-Length", "0")])
            return []
        body = environ["wsgi.input"].read(size)
        headers = {name[5:].replace("_", "-"): value for name, value in environ.items() if name.startswith("HTTP_")}
        if not is_valid(secret, headers, body):
            start_response("401 Unauthorized", [("Content-Length", "0")])
            return []
        environ["wsgi.input"] = io.BytesIO(body)
        return app(environ, start_response)

    return checked


def verified_asgi(app: AsgiApp, secret: str) -> AsgiApp:
    """The ASGI application behind a check of every HTTP request."""
    is_valid(secret, {}, b"")

    async def refuse(send: Send, status: int) -> None:
        await send({"type": "http.response.start", "status": status, "headers": [(b"content-length", b"0")]})
        await send({"type": "http.response.body", "body": b""})

    async def checked(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            return await app(scope, receive, send)
        if scope["type"] != "http":
            return None  # no webhook comes as a WebSocket
        body, is_whole = b"", False
        while not is_whole:
            message = await receive()
            if message["type"] != "http.request":
                return None  # the sender has left
            body, is_whole = body + message.get("body", b""), not message.get("more_body", False)
            if len(body) > BODY_BYTES_MAX:
                return await refuse(send, 413)
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        if not is_valid(secret, headers, body):
            return await refuse(send, 401)
        given = False

        async def replay() -> MutableMapping[str, Any]:
            nonlocal given
            if given:
                return await receive()
            given = True
            return {"type": "http.request", "body": body, "more_body": False}

        return await app(scope, replay, send)

    return checked
