// What a form has of a timer, as the fields of a call: the body of a create, and the merge patch of a change.

function jsonOf(text) {
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new Error(`The payload is no JSON: ${error.message}`);
  }
}

/** Labels in one line, as labelsIn reads them. */
export function labelsOf(timer) {
  return Object.entries(timer.labels ?? {}).map(([name, value]) => `${name}:${value}`).join(", ");
}

function labelsIn(text) {
  return Object.fromEntries(text.split(",").filter((one) => one.trim()).map((one) => {
    const [name, ...value] = one.trim().split(":");
    return [name, value.join(":")];
  }));
}

/** The payload as one edits it. */
export function payloadText(timer) {
  return timer.payload === undefined ? "" : JSON.stringify(timer.payload, null, 2);
}

/** The body of POST /v1/timers for what the form holds. */
export function bodyOf(given) {
  const body = {target: given.target};
  if (given.kind === "cron") Object.assign(body, {cron: given.time, timezone: given.timezone || undefined});
  else body[given.kind] = given.time;
  if (given.key) body.key = given.key;
  if (given.payload.trim()) body.payload = jsonOf(given.payload);
  if (given.labels.trim()) body.labels = labelsIn(given.labels);
  if (given.watch.trim()) body.watch = given.watch.split(",").map((one) => one.trim());
  return body;
}

const isObject = (value) => typeof value === "object" && value !== null && !Array.isArray(value);

/** The merge patch (RFC 7396) that makes `to` of `from`; undefined when they are equal. */
export function mergePatch(from, to) {
  if (JSON.stringify(from) === JSON.stringify(to)) return undefined;
  if (!isObject(to)) return to;
  const before = isObject(from) ? from : {}, patch = {};
  for (const name of Object.keys(before)) if (!(name in to)) patch[name] = null;
  for (const [name, value] of Object.entries(to)) {
    if (value === null && before[name] !== null) throw new Error(`A change cannot set ${name} to null: that removes it.`);
    const one = mergePatch(before[name], value);
    if (one !== undefined) patch[name] = one;
  }
  return patch;
}

/** The patch for what a form has of a timer: its fields that differ. */
export function changed(timer, {target, labels, payload}) {
  const patch = {target: mergePatch(timer.target, target.trim())};
  if (labels !== labelsOf(timer)) patch.labels = mergePatch(timer.labels ?? {}, labelsIn(labels));
  if (payload !== undefined && payload !== payloadText(timer))
    patch.payload = payload.trim() ? mergePatch(timer.payload, jsonOf(payload)) : null;
  const fields = Object.fromEntries(Object.entries(patch).filter(([, value]) => value !== undefined));
  if (!Object.keys(fields).length) throw new Error("Nothing is changed.");
  return fields;
}
