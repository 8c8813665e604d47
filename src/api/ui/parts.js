// What pages are made of. Text is set as text, never as HTML: whatever a timer contains stays text.

import {patch} from "./morph.js";

const SVG = "http://www.w3.org/2000/svg";
const SVG_TAGS = new Set(["svg", "rect", "text", "polyline", "title", "line", "path"]);

/** An element: h("a", {href: "#/now", onclick: f}, "Now", child). */
export function h(tag, attributes = {}, ...children) {
  const element = SVG_TAGS.has(tag) ? document.createElementNS(SVG, tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) element[name] = value;
    else if (name === "value") element.value = value;
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

export function number(value) {
  return value === undefined || value === null ? "–" : Math.round(value).toLocaleString("en");
}

export function bytes(value) {
  if (value === undefined || value === null) return "–";
  let unit = 0;
  for (; value >= 1024 && unit < 4; unit++) value /= 1024;
  return `${value.toFixed(value < 10 && unit ? 1 : 0)} ${["B", "KiB", "MiB", "GiB", "TiB"][unit]}`;
}

export function duration(ms) {
  if (ms === undefined || ms === null) return "–";
  const sign = ms < 0 ? "-" : "";
  ms = Math.abs(ms);
  if (ms < 1000) return `${sign}${Math.round(ms)} ms`;
  const parts = [["d", 86400000], ["h", 3600000], ["min", 60000], ["s", 1000]];
  const first = parts.findIndex(([, size]) => ms >= size);
  const [unit, size] = parts[first];
  const [next, nextSize] = parts[first + 1] ?? [];
  const whole = Math.floor(ms / size);
  const rest = nextSize ? Math.floor((ms % size) / nextSize) : 0;
  return `${sign}${whole} ${unit}${rest ? ` ${rest} ${next}` : ""}`;
}

/** The time zone in which the pages show and read times. */
export const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
const format = new Intl.DateTimeFormat("en-GB", {day: "numeric", month: "short", year: "numeric", hour: "2-digit",
                                                 minute: "2-digit", second: "2-digit", timeZoneName: "short"});

export const dateOf = (text) => format.format(new Date(text));

function far(at) {
  const ms = at - Date.now();
  if (Math.abs(ms) < 1000) return "now";
  return ms >= 0 ? `in ${duration(ms)}` : `${duration(-ms)} ago`;
}

/** A point in time, and how far it is from now. */
export function when(text) {
  if (!text) return "–";
  const at = new Date(text);
  return h("time", {datetime: text, title: text}, h("span", {class: "date"}, dateOf(text)), " ", h("span", {class: "dim"}, far(at)));
}

/** How far all shown points in time are from now. */
export function age() {
  for (const shown of document.querySelectorAll("time > .dim")) {
    const text = far(new Date(shown.parentElement.dateTime));
    if (shown.firstChild.nodeValue !== text) shown.firstChild.nodeValue = text;
  }
}

/** A text that breaks behind its separators, such as those of a URL, rather than within a word. */
export function words(text) {
  return String(text).split(/(?<=[/?&=@,;_-])(?=[^/.:?&=@,;_-])|(?<=[.:])(?=[^\d\s/.:?&=@,;_-])/).flatMap((one, at) => (at ? [h("wbr"), one] : [one]));
}

const broken = (value) => (typeof value === "string" ? words(value) : value);

/** A table; `keyOf` names a row, so that it is found again when the table is patched. */
export function table(caption, columns, rows, {empty = "None", keyOf = ({id, name}) => id ?? name} = {}) {
  const shown = columns.filter(Boolean);
  return h("div", {class: "scroll", tabindex: "0", role: "region", "aria-label": caption},
    h("table", {},
      h("caption", {}, rows.length ? caption : `${caption}: ${empty}`),
      h("thead", {}, h("tr", {}, shown.map(({name, kind}) => h("th", {scope: "col", class: kind}, name)))),
      h("tbody", {}, rows.map((row) => h("tr", {"data-key": keyOf(row)},
        shown.map(({of, kind}) => h("td", {class: kind}, kind === "break" ? broken(of(row) ?? "–") : of(row) ?? "–")))))));
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
function modal(dialog) {
  const focused = document.activeElement;
  const around = focused === document.body ? null : focused.parentElement;
  dialog.addEventListener("close", () => {
    dialog.remove();
    if (document.activeElement === document.body) (around?.querySelector("button") ?? document.querySelector("h1")).focus();
  });
  document.body.append(dialog);
  dialog.showModal();
}

/** Asks before something that cannot be undone. */
export function confirmed(text, label) {
  return new Promise((resolve) => {
    const dialog = h("dialog", {"aria-label": label},
      h("p", {}, words(text)),
      h("div", {class: "buttons"},
        h("button", {type: "button", class: "danger", onclick: () => dialog.close("yes")}, label),
        h("button", {type: "button", class: "plain", onclick: () => dialog.close("")}, "Leave it")));
    dialog.addEventListener("close", () => resolve(dialog.returnValue === "yes"));
    modal(dialog);
  });
}

/**
 * Asks for the fields of a call: a dialog that says what the call does, and shows the command for what is typed.
 * `command(given)` is that command; `run(given)` makes the call, and what it throws is shown in the dialog.
 */
export function ask({title, text, label, kind, fields = [], command, run}) {
  const shown = h("div", {});
  const made = form({}, async (given) => {
    await run(given);
    dialog.close();
  }, h("h2", {}, words(title)), h("p", {}, words(text)), fields, shown,
     h("div", {class: "buttons"}, h("button", {class: kind}, label),
       h("button", {type: "button", class: "plain", onclick: () => dialog.close()}, "Leave it")));
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

/** Bars with their sum as a text, for whoever cannot see them. */
export function bars(label, values, labelOf) {
  const most = Math.max(1, ...values);
  // As wide as the page has room for: a picture that is scaled down has labels that cannot be read.
  const width = Math.min(960, document.documentElement.clientWidth - 24), height = 180, step = width / values.length;
  const svg = h("svg", {class: "bars", viewBox: `0 0 ${width} ${height + 18}`, role: "img", "aria-label": label,
                        preserveAspectRatio: "none"});
  values.forEach((value, i) => {
    const size = value ? Math.max(2, (height * value) / most) : 0;
    svg.append(h("rect", {x: i * step + 0.5, y: height - size, width: Math.max(1, step - 1), height: size},
                 h("title", {}, `${labelOf(i)}: ${number(value)}`)));
    if (i % Math.ceil((120 * values.length) / width) === 0)
      svg.append(h("text", {x: i * step, y: height + 14}, labelOf(i)));
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
