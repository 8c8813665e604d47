// The calls of the API. The token is asked for once, and kept in memory only: it is gone with the page.

import {parse, stringify} from "./exact.js";

// The dashboard may be published below a path: the API of /timers/ui is /timers/v1.
const root = new URL("..", import.meta.url).pathname.slice(0, -1);
let token = "";
let askToken = null; // shows the form; resolves when there is a new token
let may = null, mayDefine = null; // what mayChange and mayAdminister promise for the token

export class ProblemError extends Error {
  constructor(status, problem, source = "") {
    const first = problem.errors?.[0];
    super(first ? `${first.pointer ?? first.parameter ?? ""} ${first.detail}`.trim() : problem.detail || problem.title);
    this.status = status;
    this.problem = problem;
    this.source = source;
    this.type = (problem.type ?? "").split("/").pop();
  }
}

export function onTokenNeeded(ask) {
  askToken = ask;
}

/** The path of a call in this page's site. */
export const urlOf = (path) => root + path;

export function setToken(text) {
  token = text.trim();
  may = mayDefine = null;
}

function headersOf(body, more) {
  const headers = {...more};
  if (body !== undefined) headers["Content-Type"] ??= "application/json";
  if (token) headers.Authorization = `Bearer ${token}`;
  return headers;
}

async function send(method, path, {body, plain, headers, signal} = {}) {
  for (;;) {
    const response = await fetch(urlOf(path), {
      method, signal, headers: headersOf(body ?? plain, headers), cache: "no-store", credentials: "omit",
      body: body === undefined ? plain : stringify(body),
    });
    if (response.status !== 401) return response;
    await askToken(token !== "");
    signal?.throwIfAborted();
  }
}

/** The problem that an answer without success has. */
export async function problemOf(response) {
  const text = await response.text();
  try {
    return new ProblemError(response.status, JSON.parse(text), text);
  } catch {
    return new ProblemError(response.status, {title: `The answer has status ${response.status}`});
  }
}

/** The JSON of an answer; throws its problem. A final timer is an answer, too. The body is `body` as JSON, or the text `plain`. */
export async function call(method, path, options = {}) {
  const response = await send(method, path, options);
  if (response.ok) return response.json();
  const error = await problemOf(response);
  if (error.type === "gone" && method === "GET" && error.problem.timer) return error.problem.timer;
  throw error;
}

/** A timer, live or over; its payload as exact.js reads it. */
export async function getTimer(path, options = {}) {
  const response = await send("GET", path, options);
  const error = response.ok ? null : await problemOf(response);
  if (error && !(error.type === "gone" && error.problem.timer)) throw error;
  const source = error ? error.source : await response.text();
  const timer = error ? error.problem.timer : JSON.parse(source);
  const exact = error ? parse(source).get("timer") : parse(source);
  return {...timer, ...(exact.has("payload") && {payload: exact.get("payload")})};
}

/** An answer that is text. */
export async function text(path, options = {}) {
  const response = await send("GET", path, options);
  if (!response.ok) throw await problemOf(response);
  return response.text();
}

/** The answer of GET /v1/events behind the event `last`, as it is; it asks for no token. */
export function listen(parameters, last, signal) {
  const headers = headersOf(undefined, last ? {"Last-Event-ID": last} : {});
  return fetch(urlOf(`/v1/events${query(parameters ?? {})}`), {signal, headers, cache: "no-store", credentials: "omit"});
}

/** The JSON of an answer; null if there is none, such as for want of a scope. It asks for no token. */
export async function look(path, options = {}) {
  try {
    const response = await fetch(urlOf(path), {...options, headers: headersOf(), cache: "no-store", credentials: "omit"});
    return response.ok ? await response.json() : null;
  } catch {
    return null;
  }
}

async function askWhetherMayChange() {
  try {
    // A cancel that names no timer is refused in any case; for want of the scope, with this status.
    const response = await fetch(urlOf("/v1/timers/cancel"), {method: "POST", headers: headersOf("{}"), body: "{}",
                                                              cache: "no-store", credentials: "omit"});
    return response.status !== 403;
  } catch {
    may = null;
    return true;
  }
}

/** Whether the token has the scope for calls that change something. */
export function mayChange() {
  if (!token) return Promise.resolve(true); // the daemon asks for none, or this page will ask for one
  may ??= askWhetherMayChange();
  return may;
}

async function askWhetherMayAdminister() {
  try {
    const response = await fetch(urlOf("/v1/admin/maintenance"), {headers: headersOf(), cache: "no-store", credentials: "omit"});
    return response.status !== 403;
  } catch {
    mayDefine = null;
    return true;
  }
}

/** Whether the token has the scope for calls that define something, such as named targets. */
export function mayAdminister() {
  if (!token) return Promise.resolve(true);
  mayDefine ??= askWhetherMayAdminister();
  return mayDefine;
}

export const get = (path, options) => call("GET", path, options);
export const post = (path, body, options) => call("POST", path, {...options, body: body ?? {}});

export function query(parameters) {
  const made = new URLSearchParams();
  for (const [name, value] of Object.entries(parameters))
    for (const one of Array.isArray(value) ? value : [value])
      if (one !== undefined && one !== null && one !== "") made.append(name, one);
  const text = made.toString();
  return text && `?${text}`;
}

const quote = (text) => `'${text.replaceAll("'", "'\\''")}'`;

/** The command that makes the same call; the token stays a variable of the shell. */
export function curlOf(method, path, body) {
  const parts = ["curl", ...(method === "GET" ? [] : ["-X", method]), quote(location.origin + urlOf(path))];
  if (token) parts.push("-H", '"Authorization: Bearer $TICKWHEEL_TOKEN"');
  if (body !== undefined) parts.push("-H", quote("Content-Type: application/json"), "-d", quote(stringify(body)));
  return parts.join(" ");
}

/** The command that sends a file. */
export const curlOfFile = (method, path, type, name) => `${curlOf(method, path)} -H ${quote(`Content-Type: ${type}`)} --data-binary ${quote(`@${name}`)}`;
