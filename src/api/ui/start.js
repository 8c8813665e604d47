// The first steps, for a daemon that has no timers: the lines that make one, with the address of this daemon.

import {get, urlOf} from "./api.js";
import {patch} from "./morph.js";
import {action, h} from "./parts.js";

/** The lines of each way in. The timer is due in 30 s, and waits in a queue for a worker. */
function waysOf(url) {
  return [
    ["curl", `curl ${url}/v1/timers -H 'Content-Type: application/json' \\\n  -d '{"after": "30s", "target": "queue:hello", "payload": {"order": 42}}'`],
    ["Command line", `tickwheel add 30s queue:hello --payload '{"order": 42}' --url ${url}`],
    ["Python", `from tickwheel import Client\n\ntimers = Client("${url}")\ntimers.create("queue:hello", after="30s", payload={"order": 42})`],
    ["Go", `timers, err := tickwheel.New("${url}")\ntimer, err := timers.Create(ctx, tickwheel.Create{\n    Target: "queue:hello", After: "30s", Payload: map[string]int{"order": 42}})`],
    ["TypeScript", `import {Client} from "tickwheel";\n\nconst timers = new Client("${url}");\nawait timers.create({target: "queue:hello", after: "30s", payload: {order: 42}});`],
    ["Java", `Client timers = Client.of("${url}");\ntimers.create(Create.to("queue:hello").after(Duration.ofSeconds(30)).payload(Map.of("order", 42)));`],
  ];
}

const shown = () => h("section", {class: "start"}, h("h2", {}, "You have no timers yet"),
  h("p", {}, "Make the first one from here, or with the ", h("a", {href: "#/new"}, "form"), ". It is due 30 seconds later, in the queue hello."),
  waysOf(location.origin + urlOf("")).map(([name, lines], i) => h("details", {name: "way", open: i === 0},
    h("summary", {}, name), h("pre", {tabindex: "0"}, lines), action("Copy", () => navigator.clipboard.writeText(lines), "plain"))));

/** A place that shows the first steps as long as there were no timers; `refresh` looks again, with the number of live ones if it is known. */
export function firstSteps(signal) {
  const place = h("div", {});
  async function refresh(live) {
    const {count} = live === undefined ? await get("/v1/timers/count", {signal}) : {count: live};
    const isNew = count === 0 && !(await get("/v1/deliveries?limit=1", {signal})).deliveries.length;
    patch(place, isNew ? [shown()] : []);
  }
  return {place, refresh: (live) => refresh(live).catch(() => patch(place, []))};
}
