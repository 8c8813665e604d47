import {createHmac, createPublicKey, timingSafeEqual, verify, type KeyObject} from "node:crypto";
import type {IncomingHttpHeaders, IncomingMessage, RequestListener, ServerResponse} from "node:http";

const bodyBytesMax = 2 << 20; // the service sends at most 1 MiB
const toleranceSeconds = 300;
const signaturesMax = 8; // by private keys; the service sends at most 2
const publicKeyStart = Buffer.from("302a300506032b6570032100", "hex"); // of the DER of an Ed25519 key (RFC 8410)

export type Handler = (request: IncomingMessage, response: ServerResponse, body: Buffer) => void;

/** Checks the signatures of webhooks (Standard Webhooks). */
export class Verifier {
  readonly #key: Buffer;
  readonly #publicKey?: KeyObject;

  /** `secret` is that of the service, whsec_ and base64; or the public key of one that signs by a private key, whpk_ and base64. */
  constructor(secret: string) {
    const isPublic = secret.startsWith("whpk_");
    const text = secret.replace(/^wh(sec|pk)_/, "");
    this.#key = Buffer.from(text, "base64");
    if (this.#key.length === 0 || !/^[A-Za-z0-9+/]+={0,2}$/.test(text) || (isPublic && this.#key.length !== 32))
      throw new TypeError(isPublic ? "the public key is not whpk_ and the base64 of 32 bytes" : "the secret is not whsec_ and base64");
    if (isPublic)
      this.#publicKey = createPublicKey({key: Buffer.concat([publicKeyStart, this.#key]), format: "der", type: "spki"});
  }

  /** Whether `body`, as received, was signed within the last five minutes. Names of headers in lower case. */
  isValid(headers: IncomingHttpHeaders | Record<string, string | undefined>, body: Uint8Array): boolean {
    const [id, sent, signatures] = ["webhook-id", "webhook-timestamp", "webhook-signature"].map(
      (name) => String(headers[name] ?? ""));
    if (!id || !sent || !signatures || !/^[0-9]{1,12}$/.test(sent)) return false;
    if (Math.abs(Date.now() / 1000 - Number(sent)) > toleranceSeconds) return false;
    if (this.#publicKey) return this.#isSignedByKey(this.#publicKey, Buffer.concat([Buffer.from(`${id}.${sent}.`), body]), signatures);
    const wanted = Buffer.from(
      "v1," + createHmac("sha256", this.#key).update(`${id}.${sent}.`).update(body).digest("base64"));
    let isValid = false;
    for (const one of signatures.split(" ")) {
      const given = Buffer.from(one);
      isValid = (given.length === wanted.length && timingSafeEqual(given, wanted)) || isValid;
    }
    return isValid;
  }

  #isSignedByKey(key: KeyObject, text: Buffer, signatures: string): boolean {
    return signatures.split(" ").filter((one) => one.startsWith("v1a,")).slice(0, signaturesMax)
      .map((one) => Buffer.from(one.slice(4), "base64")).some((one) => one.length === 64 && verify(null, text, key, one));
  }

  /** A listener for node:http that calls the handler for valid webhooks only; others are answered 401 or 413. */
  listener(handler: Handler): RequestListener {
    return (request, response) => {
      const chunks: Buffer[] = [];
      let size = 0;
      request.on("data", (chunk: Buffer) => {
        size += chunk.length;
        if (size <= bodyBytesMax) chunks.push(chunk);
        else if (!response.headersSent) response.writeHead(413, {Connection: "close"}).end();
      });
      request.on("end", () => {
        if (size > bodyBytesMax) return;
        const body = Buffer.concat(chunks);
        if (this.isValid(request.headers, body)) handler(request, response, body);
        else response.writeHead(401).end();
      });
    };
  }

  /**
   * Middleware for Express and Connect, behind `express.raw({type: () => true})`, which leaves the body
   * as it was received.
   */
  express(): (request: {headers: IncomingHttpHeaders; body?: unknown}, response: ServerResponse,
              next: () => void) => void {
    return (request, response, next) => {
      if (!Buffer.isBuffer(request.body)) throw new TypeError("verify the bytes as received: use express.raw() before");
      if (this.isValid(request.headers, request.body)) next();
      else response.writeHead(401).end();
    };
  }
}
