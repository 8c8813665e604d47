// The nodes and partitions of a cluster: a page, and the nodes on the overview.

import {curlOf, get} from "./api.js";
import {patch} from "./morph.js";
import {curl, h, number, table, when} from "./parts.js";

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

function nodesOf(found) {
  const waiting = found.partitions.filter(({owner, planned}) => owner !== planned).length;
  return [table(`Nodes of ${found.name}, seen from node ${found.node}`, [
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
  waiting ? h("p", {class: "hint"}, `Partitions with another node than the plan says: ${number(waiting)}.`) : ""];
}

function partitionsOf({partitions}) {
  return table("Partitions", [
    {name: "Partition", kind: "number", of: ({partition}) => partition},
    {name: "State", of: ({state}) => state},
    {name: "Owner", kind: "number", of: ({owner}) => owner},
    {name: "Owner by the plan", kind: "number", of: ({owner, planned}) => h("span", {class: owner === planned ? "" : "warn"}, planned)},
    {name: "Copies on nodes", of: ({standbys}) => standbys.join(", ") || "–"},
    {name: "Records behind", kind: "number", of: ({behind}) => number(behind)},
    {name: "Epoch", kind: "number", of: ({epoch}) => epoch},
  ], partitions, {keyOf: ({partition}) => partition});
}

/** Reads the cluster while the page is shown, until `show` returns false. */
async function readAgain(signal, show) {
  let found = await get("/v1/cluster", {signal});
  while (!signal.aborted && show(found)) {
    await new Promise((resolve) => { setTimeout(resolve, PERIOD_MS); });
    found = document.hidden ? found : await get("/v1/cluster", {signal}).catch(() => found);
  }
}

/** A place that shows the nodes while the page is shown; it stays empty without a cluster, or without the scope. */
export function cluster({signal}) {
  const place = h("div", {});
  readAgain(signal, (found) => {
    if (found.nodes.length)
      patch(place, [h("h2", {}, h("a", {href: "#/cluster"}, "Cluster")), ...nodesOf(found),
                    h("p", {class: "hint"}, `The figures above and the events below are those of node ${found.node}.`)]);
    return found.nodes.length > 0;
  }).catch(() => {}); // the verdict above says what is wrong
  return place;
}

/** The page. */
export async function clusterPage({content, signal}) {
  const place = h("div", {});
  content.append(place, curl(curlOf("GET", "/v1/cluster")));
  const show = (found) => {
    patch(place, found.nodes.length ? [...nodesOf(found), h("h2", {}, "Partitions"), partitionsOf(found)]
      : [h("p", {}, "This daemon runs alone: it has no other nodes, and no plan who owns what.")]);
    return found.nodes.length > 0;
  };
  show(await get("/v1/cluster", {signal}));
  readAgain(signal, show).catch(() => {});
}
