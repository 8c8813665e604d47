// Elements, and texts within them. Text is set as text, never as HTML: whatever a timer contains stays text.

const SVG = "http://www.w3.org/2000/svg";
const SVG_TAGS = new Set(["svg", "rect", "text", "polyline", "title", "line", "path"]);

/** An element: h("a", {href: "#/timers", onclick: f}, "Timers", child). */
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

/** A text that breaks behind its separators, such as those of a URL, rather than within a word. */
export function words(text) {
  return String(text).split(/(?<=[/?&=@,;_-])(?=[^/.:?&=@,;_-])|(?<=[.:])(?=[^\d\s/.:?&=@,;_-])/).flatMap((one, at) => (at ? [h("wbr"), one] : [one]));
}

/** What the reader has chosen, kept by the browser for this site; `otherwise` if nothing is, or nothing may be kept. */
export function chosen(name, otherwise) {
  try {
    return JSON.parse(localStorage.getItem(`tickwheel.${name}`)) ?? otherwise;
  } catch {
    return otherwise;
  }
}

/** Keeps a choice. A browser that keeps nothing forgets it with the page. */
export function choose(name, value) {
  try {
    localStorage.setItem(`tickwheel.${name}`, JSON.stringify(value));
  } catch {
    // The page works without it.
  }
}
