// Flows: how many timers of each run and wait, its limits, and its pause.

import {call, curlOf, get, mayChange, query} from "./api.js";
import {flowButtons, pausedOf} from "./hold.js";
import {limitFields, limitWords, limitsIn} from "./limits.js";
import {followed} from "./load.js";
import {action, ask, curl, field, h, number, table, when, words} from "./parts.js";

const isNamed = (key) => /^[A-Za-z0-9._-]{1,64}$/.test(key); // else no limits can be set for all its timers
const pathOf = (key) => `/v1/flows/${encodeURIComponent(key)}`;

function setLimits(flow, done) {
  const bodyOf = (given) => {
    const limits = limitsIn(given);
    if (!Object.keys(limits).length) throw new Error("Give how many run at a time, or how many start.");
    return limits;
  };
  ask({
    title: flow ? `Limits of the flow ${flow.key}` : "Limits of a flow", label: "Set them",
    text: "They hold for all timers of the flow, in place of those that timers carry themselves.",
    fields: [!flow && field("Key of the flow", "key", {required: true, maxlength: 64, pattern: "[A-Za-z0-9._\\-]+", placeholder: "customer-42"}), ...limitFields(flow)],
    command: (given) => curlOf("PUT", pathOf(flow?.key ?? given.key), bodyOf(given)),
    run: (given) => call("PUT", pathOf(flow?.key ?? given.key), {body: bodyOf(given)}).then(() => done(`The limits of ${flow?.key ?? given.key} are set.`)),
  });
}

function removeLimits({key}, done) {
  ask({title: `Remove the limits of ${key}?`, text: "Its timers have those that they carry themselves.", label: "Remove them", kind: "danger",
       command: () => curlOf("DELETE", pathOf(key)), run: () => call("DELETE", pathOf(key)).then(() => done(`The limits of ${key} are removed.`))});
}

function buttonsOf(flow, done) {
  return h("div", {class: "buttons"}, flowButtons(flow, done),
    isNamed(flow.key) ? action("Limits", () => setLimits(flow, done), "plain") : "",
    flow.defined ? action("Remove", () => removeLimits(flow, done), "danger") : "");
}

function limitsOf(flow) {
  const text = limitWords(flow);
  return text && [...text.split(", ").map((one) => h("div", {}, one)), h("div", {class: "dim"}, flow.defined ? "for all its timers" : "as its timers say")];
}

export async function flows(context) {
  const {signal} = context;
  const may = await mayChange();
  await followed(context, async (done, sort) => {
    const {flows: rows, complete} = await get("/v1/flows", {signal});
    return [
      may ? h("div", {class: "buttons"}, action("Set limits", () => setLimits(undefined, done), "plain")) : "",
      table("Flows with timers that run or wait, with limits or paused", [
        {name: "Flow", kind: "key", by: ({key}) => key, of: ({key}) => h("a", {href: `#/timers${query({flow: key})}`}, words(key))},
        {name: "Limits", kind: "short", of: limitsOf},
        {name: "Running", kind: "number", of: ({running}) => number(running), by: ({running}) => running},
        {name: "Waiting", kind: "number", by: ({waiting}) => waiting,
         of: ({waiting, more_on_disk: isMore}) => (isMore ? `${number(waiting)} and more on disk` : number(waiting))},
        {name: "Oldest", kind: "time", of: ({oldest}) => oldest && when(oldest), by: ({oldest}) => oldest},
        {name: "Paused", kind: "state", of: pausedOf},
        may && {name: "Do", of: (flow) => buttonsOf(flow, done)},
      ], rows, {sort, keyOf: ({key}) => key, empty: "none. A timer with a flow makes one when it is due"}),
      complete ? "" : h("p", {class: "hint"}, "There are more than are shown."), curl(curlOf("GET", "/v1/flows"))];
  }, {parameters: {type: ["failed", "dead", "cancelled", "paused", "resumed"]}});
}
