// The nodes of a cluster, on the page Now; nothing without one.

import {get} from "./api.js";
import {patch} from "./morph.js";
import {h, number, table, when} from "./parts.js";

const PERIOD_MS = 2000;

/** A node that was stopped has given up its partitions before: it is drained, and not dead. One that an operator drains
 * takes none back. */
function stateOf({alive, stopping, drained, owns}) {
  if (alive && drained) return owns ? "drains" : "drained, takes no partition";
  if (alive) return stopping ? "stops" : "alive";
  return (stopping || drained) && !owns ? "drained" : "dead";
}

const looks = {alive: "good", stops: "warn", drains: "warn", dead: "bad"};

/** Each node with its partitions: those that it owns, and those of which it keeps a copy. */
function rowsOf({nodes, partitions}) {
  return nodes.map((node) => ({...node,
    owns: partitions.filter(({owner}) => owner === node.node).length,
    copies: partitions.filter(({standbys}) => standbys.includes(node.node)).length}));
}

function show(place, found) {
  const waiting = found.partitions.filter(({owner, planned}) => owner !== planned).length;
  patch(place, [h("h2", {}, "Cluster"), table(`Nodes of ${found.name}, seen from node ${found.node}`, [
    {name: "Node", kind: "number", of: ({node}) => node},
    {name: "State", of: (node) => h("span", {class: looks[stateOf(node)] ?? "dim"},
                                    stateOf(node), node.planner ? ", makes the plan" : "")},
    {name: "Address", kind: "break", of: ({address}) => address},
    {name: "Zone", of: ({zone}) => zone},
    {name: "Owns", kind: "number", of: ({owns}) => number(owns)},
    {name: "Copies", kind: "number", of: ({copies}) => number(copies)},
    {name: "Load", kind: "number", of: ({load}) => `${Math.round(100 * load)} %`},
    {name: "Last note", of: ({seen}) => when(seen)},
  ], rowsOf(found), {keyOf: ({node}) => node}),
  h("p", {class: "hint"}, `The figures above and the events below are those of node ${found.node}.`),
  waiting ? h("p", {class: "hint"}, `Partitions with another node than the plan says: ${number(waiting)}.`) : ""]);
}

/** A place that shows the nodes while the page is shown; it stays empty without a cluster, or without the scope. */
export function cluster({signal}) {
  const place = h("div", {});
  const read = async () => {
    let found = await get("/v1/cluster", {signal});
    while (found.nodes.length && !signal.aborted) {
      show(place, found);
      await new Promise((resolve) => { setTimeout(resolve, PERIOD_MS); });
      found = document.hidden ? found : await get("/v1/cluster", {signal}).catch(() => found);
    }
  };
  read().catch(() => {}); // the verdict above says what is wrong
  return place;
}
