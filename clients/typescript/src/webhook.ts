import {createHmac, timingSafeEqual} from "node:crypto";
import type {IncomingHttpHeaders, IncomingMessage, RequestListener, ServerResponse} from "node:http";

const bodyBytesMax = 2 << 20; // the service sends at most 1 MiB
const toleranceSeconds = 300;

export type Handler = (request: IncomingMessage, response: ServerResponse, body: Buffer) => void;

/** Checks the signatures of webhooks (Standard Webhooks). */
export class Verifier {
  readonly #key: Buffer;

  /** `secret` is that of the service: whsec_ and base64. */
  constructor(secret: string) {
    const text = secret.replace(/^whsec_/, "");
    this.#key = Buffer.from(text, "base64");
    if (this.#key.length === 0 || !/^[A-Za-z0-9+/]+={0,2}$/.test(text))
      throw new TypeError("the secret is not whsec_ and base64");
  }

  /** Whether `body`, as received, was signed within the last five minutes. Names of headers in lower case. */
  isValid(headers: IncomingHttpHeaders | Record<string, string | undefined>, body: Uint8Array): boolean {
    const [id, sent, signatures] = ["webhook-id", "webhook-timestamp", "webhook-signature"].map(
      (name) => String(headers[name] ?? ""));
    if (!id || !sent || !signatures || !/^[0-9]{1,12}$/.test(sent)) return false;
    if (Math.abs(Date.now() / 1000 - Number(sent)) > toleranceSeconds) return false;
    const wanted = Buffer.from(
      "v1," + createHmac("sha256", this.#key).update(`${id}.${sent}.`).update(body).digest("base64"));
    let isValid = false;
    for (const one of signatures.split(" ")) {
      const given = Buffer.from(one);
      isValid = (given.length === wanted.length && timingSafeEqual(given, wanted)) || isValid;
    }
    return isValid;
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
