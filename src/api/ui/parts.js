// What pages are made of: figures, tables, buttons, dialogs and forms.

import {h, words} from "./element.js";
import {patch} from "./morph.js";

export {h, words} from "./element.js";
export {age, dateOf, duration, nowMs, when, whenIn, zone} from "./times.js";

export function number(value) {
  return value === undefined || value === null ? "–" : Math.round(value).toLocaleString("en");
}

export function bytes(value) {
  if (value === undefined || value === null) return "–";
  let unit = 0;
  for (; value >= 1024 && unit < 4; unit++) value /= 1024;
  return `${value.toFixed(value < 10 && unit ? 1 : 0)} ${["B", "KiB", "MiB", "GiB", "TiB"][unit]}`;
}

const broken = (value) => (typeof value === "string" ? words(value) : value);

/** An id without the middle that those of one node share. What differs stays: the time and a count at the front, the place in a batch at the end. */
export const shortId = (id) => (id.length > 20 ? `${id.slice(0, 14)}…${id.slice(-4)}` : id);

const copyIcon = () => h("svg", {viewBox: "0 0 16 16", class: "icon", "aria-hidden": "true"},
  h("rect", {x: 2, y: 5, width: 8, height: 9, rx: 1.5}), h("rect", {x: 6, y: 2, width: 8, height: 9, rx: 1.5}));

function copyOf(id) {
  return h("button", {
    type: "button", class: "copy", "aria-label": `Copy the id ${id}`, title: `Copy the id ${id}`, "data-key": `copy ${id}`,
    onclick: async ({currentTarget: button}) => {
      await navigator.clipboard.writeText(id);
      button.classList.add("done");
      setTimeout(() => button.classList.remove("done"), 1000);
    }}, copyIcon());
}

export const idOf = (id) => h("span", {class: "id"}, h("span", {class: "mono", title: id}, shortId(id)), copyOf(id));

/** The key of a timer, or its id without one, as a link to its page; and the button that copies the id. */
export function keyOf({id, key}) {
  return h("span", {class: "keyed"}, h("a", {href: `#/timers/${id}`, class: key ? undefined : "mono"}, key ? words(key) : shortId(id)), copyOf(id));
}

/** A state or an outcome as a coloured chip, which may lead to what explains it. */
export function chip(state, href) {
  return href ? h("a", {class: `chip ${state}`, href}, state) : h("span", {class: `chip ${state}`}, state);
}

/** A form of filters, and the button that unfolds it on a small screen; `count` of them are in use. */
export function folded(search, count) {
  const button = h("button", {type: "button", class: "plain filters", "aria-expanded": "false", onclick: () => {
    button.setAttribute("aria-expanded", search.classList.toggle("open"));
  }}, count ? `Filters (${count})` : "Filters");
  return [button, search];
}

const compare = (a, b) => (typeof a === "number" && typeof b === "number" ? a - b : String(a ?? "").localeCompare(String(b ?? ""), "en", {numeric: true}));

/** The order of the rows of a table that is shown whole, by a column that has by(row); `changed` shows the table again. */
export function sorter(changed) {
  let name, isDown = false;
  return {
    isChosen: () => name !== undefined,
    order: (column) => column.name === name ? (isDown ? "descending" : "ascending") : undefined,
    rows(columns, rows) {
      const column = columns.find((one) => one.name === name);
      return column ? [...rows].sort((a, b) => compare(column.by(a), column.by(b)) * (isDown ? -1 : 1)) : rows;
    },
    head: (column) => h("button", {type: "button", class: "sort", onclick: () => {
      isDown = column.name === name && !isDown;
      name = column.name;
      changed();
    }}, column.name),
  };
}

/** A cell; one without a value is left out of a card. */
function cell({name, kind}, value) {
  const isNone = value === undefined || value === null || value === "";
  return h("td", {class: isNone ? `${kind ?? ""} none` : kind, role: "cell", "data-name": name},
           isNone ? "–" : kind === "break" ? broken(value) : Array.isArray(value) ? h("div", {}, value) : value);
}

/**
 * A table; on a small screen each row is a card. `keyOf` names a row, so that it is found again when the table is patched.
 * A column has a name, a kind, and of(row); head() may make an element in place of its name;
 * isSorted is "ascending" or "descending" if the rows are in its order. With a `sort`er, columns that have by(row) sort the rows.
 */
export function table(caption, columns, rows, {empty = "None", keyOf: nameOf = ({id, name}) => id ?? name, sort} = {}) {
  const shown = columns.filter(Boolean);
  const headOf = (column) => {
    const order = sort ? sort.order(column) : undefined;
    const head = column.head ? column.head() : sort && column.by ? sort.head(column) : column.name;
    return h("th", {scope: "col", role: "columnheader", class: column.kind, "aria-sort": sort && sort.isChosen() ? order : column.isSorted}, head);
  };
  return h("div", {class: "scroll", tabindex: "0", role: "region", "aria-label": caption},
    h("table", {role: "table"},
      h("caption", {}, rows.length ? caption : `${caption}: ${empty}`),
      h("thead", {role: "rowgroup"}, h("tr", {role: "row"}, shown.map(headOf))),
      h("tbody", {role: "rowgroup"}, (sort ? sort.rows(shown, rows) : rows).map((row) => h("tr", {"data-key": nameOf(row), role: "row"},
        shown.map((column) => cell(column, column.of(row))))))));
}

export function definitions(pairs) {
  return h("dl", {}, pairs.filter(([, value]) => value !== undefined && value !== null && value !== "")
    .flatMap(([name, value]) => [h("dt", {"data-key": `name ${name}`}, name), h("dd", {"data-key": name}, broken(value))]));
}

/** A message; it stays when what is around it is patched. */
export function message(text, kind = "") {
  return h("p", {class: `message ${kind}`, role: kind === "done" ? "status" : "alert", "data-kept": true}, words(text));
}

/** Tells below the head of a page what was done, in place of what was told before. */
export function tell(content, ...told) {
  content.querySelector(":scope > .message")?.remove();
  const made = message("", "done");
  made.append(...told.flat());
  content.querySelector(":scope > .head").after(made);
}

/** A button that does nothing while its action runs, and shows what went wrong beside it. */
export function action(label, run, kind = "") {
  return h("button", {type: "button", class: kind, "data-key": label, onclick: async ({currentTarget: button}) => {
    if (button.hasAttribute("aria-busy")) return;
    button.setAttribute("aria-busy", "true");
    const around = button.parentElement;
    around.querySelector(":scope > .message")?.remove();
    try {
      await run();
    } catch (error) {
      around.append(message(error.message));
    }
    button.removeAttribute("aria-busy");
  }}, label);
}

/** Shows a dialog until it is closed. The focus goes back to where it was, or near it. */
export function modal(dialog) {
  const focused = document.activeElement;
  const around = focused === document.body ? null : focused.parentElement;
  dialog.addEventListener("close", () => {
    dialog.remove();
    if (document.activeElement === document.body) (around?.querySelector("button") ?? document.querySelector("h1")).focus();
  });
  document.body.append(dialog);
  dialog.showModal();
}

/** Asks before something that cannot be undone. The focus is on the button that does nothing. */
export function confirmed(text, label) {
  return new Promise((resolve) => {
    const dialog = h("dialog", {"aria-label": label},
      h("p", {}, words(text)),
      h("div", {class: "buttons"},
        h("button", {type: "button", class: "danger", onclick: () => dialog.close("yes")}, label),
        h("button", {type: "button", class: "plain", autofocus: true, onclick: () => dialog.close("")}, "Leave it")));
    dialog.addEventListener("close", () => resolve(dialog.returnValue === "yes"));
    modal(dialog);
  });
}

/**
 * Asks for the fields of a call: a dialog that says what the call does, and shows the command for what is typed.
 * `command(given)` is that command; `run(given)` makes the call, and what it throws is shown in the dialog. If `kind` is
 * "danger" the focus is on the button that does nothing.
 */
export function ask({title, text, label, kind, fields = [], command, run}) {
  const shown = h("div", {});
  const made = form({}, async (given) => {
    await run(given);
    dialog.close();
  }, h("h2", {}, words(title)), h("p", {}, words(text)), fields, shown,
     h("div", {class: "buttons"}, h("button", {class: kind}, label),
       h("button", {type: "button", class: "plain", autofocus: kind === "danger", onclick: () => dialog.close()}, "Leave it")));
  const dialog = h("dialog", {"aria-label": title}, made);
  made.oninput = () => {
    try {
      patch(shown, [curl(command(Object.fromEntries(new FormData(made))), true)]);
    } catch {
      patch(shown, []); // something is typed in part
    }
  };
  made.oninput();
  modal(dialog);
}

/** A form whose fields are read into an object; `submit` gets it. */
export function form(attributes, submit, ...children) {
  return h("form", {...attributes, onsubmit: async (event) => {
    const made = event.currentTarget;
    event.preventDefault();
    made.querySelector(":scope > .message")?.remove();
    try {
      await submit(Object.fromEntries(new FormData(made)), made);
    } catch (error) {
      made.append(message(error.message));
    }
  }}, ...children);
}

export function field(label, name, attributes = {}) {
  const {options, wide, ...rest} = attributes;
  const control = options
    ? h("select", {name, ...rest}, options.map(([value, text]) => h("option", {value}, text ?? value)))
    : h(rest.rows ? "textarea" : "input", {name, ...rest});
  return h("label", {class: wide ? "wide" : undefined}, label, control);
}

const LETTER = 7; // width of a figure of an axis, in pixels

/** Bars with their sum as a text, for whoever cannot see them, and an axis that begins at 0. */
export function bars(label, values, labelOf) {
  const most = Math.max(1, ...values);
  // As wide as the page has room for: a picture that is scaled down has labels that cannot be read.
  const width = Math.min(960, document.documentElement.clientWidth - 24), height = 180, left = 8 + LETTER * number(most).length;
  const step = (width - left) / values.length;
  const svg = h("svg", {class: "bars", viewBox: `0 0 ${width} ${height + 18}`, role: "img", "aria-label": label,
                        preserveAspectRatio: "none"});
  for (const value of new Set([0, Math.ceil(most / 2), most])) {
    const y = height - ((height - 12) * value) / most;
    svg.append(h("line", {class: "grid", x1: left, x2: width, y1: y, y2: y}), h("text", {x: left - 6, y: y + 4, "text-anchor": "end"}, number(value)));
  }
  values.forEach((value, i) => {
    const size = value ? Math.max(2, ((height - 12) * value) / most) : 0;
    svg.append(h("rect", {x: left + i * step + 0.5, y: height - size, width: Math.max(1, step - 1), height: size},
                 h("title", {}, `${labelOf(i)}: ${number(value)}`)));
    if (i % Math.ceil((120 * values.length) / width) === 0)
      svg.append(h("text", {x: left + i * step, y: height + 16}, labelOf(i)));
  });
  return svg;
}

/** A small line of the last values. */
export function line(label, values) {
  const most = Math.max(1e-9, ...values);
  const points = values.map((value, i) => `${(100 * i) / Math.max(1, values.length - 1)},${34 - (32 * value) / most}`);
  return h("svg", {viewBox: "0 0 100 36", preserveAspectRatio: "none", role: "img", "aria-label": label},
           h("polyline", {class: "stroke", points: points.join(" ")}));
}

/** A command to copy. */
export function curl(text, isOpen = false) {
  const shown = h("pre", {tabindex: "0"}, text);
  return h("details", {open: isOpen}, h("summary", {}, "The same with curl"), shown,
           action("Copy", () => navigator.clipboard.writeText(text), "plain"));
}
