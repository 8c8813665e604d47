// Named targets: where they lead, how they authenticate and sign. Secrets are typed, and never shown again.

import {call, curlOf, get, mayAdminister, post, query} from "./api.js";
import {limitFields, limitsIn, limitWords} from "./limits.js";
import {patch} from "./morph.js";
import {action, ask, curl, field, h, table, tell, when, words} from "./parts.js";

const pathOf = (name) => `/v1/named-targets/${encodeURIComponent(name)}`;

// What each kind of authentication takes: the field, its label, and what else its control has.
const PLAIN = {autocomplete: "off", spellcheck: "false"};
const SECRET = {type: "password", autocomplete: "new-password"};
const AUTHS = {
  bearer: [["token", "Token", SECRET]],
  basic: [["username", "User name", {...PLAIN, required: true}], ["password", "Password", SECRET]],
  header: [["name", "Header", {...PLAIN, required: true, placeholder: "x-api-key"}], ["value", "Its value", SECRET]],
  certificate: [["certificate", "Certificate, PEM", {...PLAIN, required: true, rows: 4, placeholder: "-----BEGIN CERTIFICATE-----"}],
                ["key", "Private key, a PEM file", {type: "file", accept: ".pem,.key"}]],
  oauth2: [["token_url", "URL of the token server", {...PLAIN, required: true, placeholder: "https://login.example/oauth2/token"}],
           ["client_id", "Client id", {...PLAIN, required: true}], ["client_secret", "Client secret", SECRET],
           ["scope", "Scope", PLAIN], ["audience", "Audience", PLAIN],
           ["client_auth", "Credentials go", {options: [["", "by basic authentication"], ["post", "in the body"]]}]],
  oidc: [["audience", "Audience, if not the origin of the URL", PLAIN]],
};
const isSecret = ([, , {type}]) => type === "password" || type === "file";
const KINDS = [["", "none"], ["bearer", "bearer token"], ["basic", "user name and password"], ["header", "a header"],
               ["certificate", "TLS client certificate"], ["oauth2", "OAuth 2.0, client credentials"], ["oidc", "the daemon's own token (OIDC)"]];

/** That there is a secret, since when, or where it is kept. */
const secretWords = ({since, secret_ref: reference}) => (reference ? ["from ", ...words(reference)] : since ? ["set ", when(since)] : ["set"]);

const line = (...text) => h("div", {}, ...text);

function authOf({auth}) {
  if (!auth) return undefined;
  const about = {basic: auth.username, header: auth.name, oauth2: auth.client_id && `${auth.client_id} at ${auth.token_url}`, oidc: auth.audience}[auth.kind];
  const secrets = (AUTHS[auth.kind] ?? []).filter((one) => isSecret(one) && auth[one[0]]);
  return h("div", {}, line(auth.kind, about ? [": ", ...words(about)] : ""),
    secrets.map(([name]) => line(h("span", {class: "dim"}, `${name.replace("_", " ")} `), secretWords(auth[name]))));
}

function signingOf({signing, signing_before: before}) {
  if (!signing) return undefined;
  return [line(secretWords(signing)), before?.until ? line("that of before until ", when(before.until)) : ""];
}

const headersText = (headers = {}) => Object.entries(headers).map(([name, value]) => `${name}: ${value}`).join("\n");

function headersIn(text) {
  return Object.fromEntries(text.split("\n").filter((one) => one.trim()).map((one) => {
    const at = one.indexOf(":");
    if (at < 1) throw new Error(`${one} is no header: x-team: checkout is one.`);
    return [one.slice(0, at).trim(), one.slice(at + 1).trim()];
  }));
}

const isGiven = (value) => (value instanceof File ? value.name !== "" : Boolean(value));

/** The definition that a form has; `shown` stands for each secret, if it is given. A secret that was left empty is kept. */
function bodyOf(given, shown) {
  const headers = headersIn(given.headers);
  const auth = given.kind && {kind: given.kind};
  const limits = limitsIn(given);
  for (const one of AUTHS[given.kind] ?? []) {
    const value = given[`${given.kind}_${one[0]}`];
    if (isGiven(value)) auth[one[0]] = isSecret(one) ? shown ?? value : value;
  }
  return {url: given.url.trim(), method: given.method, ...(Object.keys(headers).length && {headers}), ...(auth && {auth}),
          ...(given.ca.trim() && {ca: given.ca}), ...(Object.keys(limits).length && {limits}),
          ...(given.unsigned ? {signing: null} : given.signing && {signing: shown ?? given.signing})};
}

/** The fields of each kind of authentication, of which those of the chosen kind are shown. */
function authFields(auth) {
  const select = field("Authentication", "kind", {options: KINDS, onchange: () => show()});
  const kind = select.querySelector("select");
  const parts = Object.entries(AUTHS).flatMap(([name, them]) => them.map(([key, label, how]) => {
    const known = auth?.kind === name ? auth[key] : undefined;
    const isKept = how.type && known?.set;
    const made = field(isKept ? `${label} (left empty: it is kept)` : label, `${name}_${key}`,
                       {...how, value: typeof known === "string" && !how.options ? known : undefined});
    if (how.options && known === "post") made.querySelector("select").value = known;
    return {name, made};
  }));
  const show = () => {
    for (const {name, made} of parts) {
      made.hidden = name !== kind.value;
      made.lastChild.disabled = made.hidden; // what is hidden is not sent, and not required
    }
  };
  kind.value = auth?.kind ?? "";
  show();
  return [select, ...parts.map(({made}) => made)];
}

/** Asks for a definition, of a new target or of one whose version that was shown it changes only. */
function define(known, names, done) {
  const nameOf = (given) => known?.name ?? given.name;
  const methods = field("Method", "method", {options: [["POST"], ["PUT"], ["PATCH"], ["GET"], ["DELETE"]]});
  methods.querySelector("select").value = known?.method ?? "POST";
  ask({
    title: known ? `Change the named target ${known.name}` : "New named target", label: known ? "Change it" : "Define it",
    text: known ? "It holds for all its timers, from their next attempt on. It is refused if the target has changed since."
                : "Timers name it: with the name billing and the target billing:/recheck they call its URL with that path behind it.",
    fields: [
      !known && field("Name", "name", {...PLAIN, required: true, maxlength: 64, pattern: "[A-Za-z][A-Za-z0-9._\\-]*", placeholder: "billing"}),
      field("URL", "url", {...PLAIN, required: true, type: "url", maxlength: 2048, value: known?.url, placeholder: "https://api.billing.example/v1"}),
      methods, field("Headers, a line each", "headers", {...PLAIN, rows: 2, value: headersText(known?.headers), placeholder: "x-team: checkout"}),
      ...authFields(known?.auth),
      field(known?.signing ? "Signing secret (left empty: it is kept)" : "Signing secret, if not the tenant's", "signing", {...SECRET, placeholder: "whsec_…"}),
      known?.signing && h("label", {class: "check"}, h("input", {type: "checkbox", name: "unsigned"}), "Sign as the tenant does"),
      ...limitFields(known?.limits),
      field("Authorities to trust, PEM", "ca", {...PLAIN, rows: 2, value: known?.ca})],
    command: (given) => curlOf("PUT", pathOf(nameOf(given)), bodyOf(given, "SECRET")),
    run: async (given) => {
      if (!known && names.includes(given.name)) throw new Error(`${given.name} is there already: change it in the list.`);
      const key = given.certificate_key;
      const typed = key instanceof File && key.name ? {...given, certificate_key: await key.text()} : given;
      await call("PUT", pathOf(nameOf(given)), {body: bodyOf(typed), headers: known && {"If-Match": `"${known.version}"`}});
      await done(`${nameOf(given)} is ${known ? "changed" : "defined"}.`);
    },
  });
}

function rotate({name}, done) {
  const path = `${pathOf(name)}/rotate`;
  const body = ({signing, overlap}, shown) => ({signing: shown ?? signing, ...(overlap.trim() && {overlap: overlap.trim()})});
  ask({
    title: `Rotate the signing secret of ${name}`, label: "Replace it",
    text: "The new one signs from now on. That of before signs too for a time, so that receivers can follow.",
    fields: [field("New secret", "signing", {...SECRET, required: true, placeholder: "whsec_…"}),
             field("That of before signs for", "overlap", {value: "1d", size: 8, placeholder: "1d; left empty: not at all"})],
    command: (given) => curlOf("POST", path, body(given, "SECRET")),
    run: (given) => post(path, body(given)).then(() => done(`The signing secret of ${name} is replaced.`)),
  });
}

function remove({name}, done) {
  ask({title: `Delete the named target ${name}?`, text: "Its secrets are gone. Attempts of its timers fail, and are retried until it is defined again.",
       label: "Delete it", kind: "danger", command: () => curlOf("DELETE", pathOf(name)),
       run: () => call("DELETE", pathOf(name)).then(() => done(`${name} is deleted.`))});
}

export async function named({content, signal}) {
  const place = h("div", {});
  async function load() {
    const {targets: rows} = await get("/v1/named-targets", {signal});
    const may = await mayAdminister();
    const names = rows.map(({name}) => name);
    patch(place, [
      may ? h("div", {class: "buttons"}, action("New named target", () => define(undefined, names, done), "plain"))
          : h("p", {class: "hint"}, "The token may read, not define: it lacks the scope admin."),
      table("Named targets", [
        {name: "Name", kind: "key", of: ({name}) => h("a", {href: `#/timers${query({origin: `${name}:`})}`}, words(name))},
        {name: "Calls", kind: "break", of: ({method, url}) => h("div", {}, `${method} `, words(url))},
        {name: "Authentication", kind: "break time", of: authOf},
        {name: "Signing", kind: "time", of: signingOf},
        {name: "Limits", kind: "time", of: ({limits}) => limits && limitWords(limits)},
        {name: "Changed", kind: "time", of: ({changed}) => when(changed)},
        may && {name: "Do", of: (target) => (target.defined_by ? h("span", {class: "dim"}, `by the ${target.defined_by}`)
          : h("div", {class: "buttons"}, action("Change", () => define(target, names, done), "plain"),
            target.signing ? action("Rotate", () => rotate(target, done), "plain") : "", action("Delete", () => remove(target, done), "danger")))},
      ], rows, {empty: "none. Timers name one as NAME:/PATH"}), curl(curlOf("GET", "/v1/named-targets"))]);
  }
  async function done(told) {
    await load();
    tell(content, told);
  }
  content.append(place);
  await load();
}
