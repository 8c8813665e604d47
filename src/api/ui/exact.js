// JSON as it was written: numbers (1.0, 9007199254740993) and strings keep their text, objects their order.

/** A number or a string as its text. */
class Exact {
  constructor(text) { this.text = text; }
}

/** Reads JSON: objects become maps, numbers and strings Exact. Throws as JSON.parse does. */
export function parse(text) {
  JSON.parse(text); // says what is wrong with it
  const tokens = text.match(/"[^"\\]*(?:\\.[^"\\]*)*"|[{}[\],:]|[^\s{}[\],:"]+/g);
  let at = 0;
  const members = (end, take) => {
    for (at++; tokens[at] !== end;) {
      take();
      if (tokens[at] === ",") at++;
    }
    at++;
  };
  const value = () => {
    const token = tokens[at];
    if (token === "{") {
      const object = new Map();
      members("}", () => {
        const name = JSON.parse(tokens[at]);
        at += 2; // the name and the colon
        object.set(name, value());
      });
      return object;
    }
    if (token === "[") {
      const array = [];
      members("]", () => array.push(value()));
      return array;
    }
    at++;
    return /^[tfn]/.test(token) ? JSON.parse(token) : new Exact(token);
  };
  return value();
}

/** Writes JSON, also of plain objects and numbers; each step is indented by `indent`. */
export function stringify(value, indent = "", margin = "") {
  if (value instanceof Exact) return value.text;
  if (typeof value !== "object" || value === null) return JSON.stringify(value);
  const isArray = Array.isArray(value), inner = margin + indent;
  const members = isArray ? value.map((one) => stringify(one ?? null, indent, inner))
    : [...(value instanceof Map ? value : Object.entries(value))].filter(([, one]) => one !== undefined)
      .map(([name, one]) => `${JSON.stringify(name)}:${indent && " "}${stringify(one, indent, inner)}`);
  const [begin, end] = isArray ? "[]" : "{}";
  if (!members.length) return begin + end;
  return indent ? `${begin}\n${inner}${members.join(`,\n${inner}`)}\n${margin}${end}` : begin + members.join(",") + end;
}
