// Makes shown elements like new ones, in place: what stays the same keeps its focus, its scroll position and its selection.

// Handlers are properties (see h), so that an element that stays gets those of the new one.
const HANDLERS = ["onclick", "onsubmit", "oninput", "onchange"];
const FOCUSABLE = "a[href], button, input, select, textarea, summary, [tabindex]";
// What the reader or a running action has set, and data cannot know.
const KEPT_ATTRIBUTES = new Set(["open", "aria-busy"]);

const keyOf = (node) => node.dataset?.key;

/** The first of a node and those behind it that is not kept: messages of actions stay where they are. */
function unkept(node) {
  while (node?.dataset?.kept !== undefined) node = node.nextSibling;
  return node;
}

function patchNode(old, fresh) {
  if (old.nodeType === Node.TEXT_NODE) {
    if (old.nodeValue !== fresh.nodeValue) old.nodeValue = fresh.nodeValue;
    return;
  }
  for (const {name} of [...old.attributes])
    if (!fresh.hasAttribute(name) && !KEPT_ATTRIBUTES.has(name)) old.removeAttribute(name);
  for (const {name, value} of fresh.attributes)
    if (old.getAttribute(name) !== value && !KEPT_ATTRIBUTES.has(name)) old.setAttribute(name, value);
  for (const name of HANDLERS) old[name] = fresh[name];
  patchChildren(old, [...fresh.childNodes]);
}

/** Children with a key are found by it; each of the others takes the place of the one at its position. */
function patchChildren(old, fresh) {
  const keyed = new Map([...old.children].filter(keyOf).map((child) => [keyOf(child), child]));
  const wanted = new Set(fresh.map(keyOf));
  for (const [key, child] of keyed) if (!wanted.has(key)) child.remove();
  let at = unkept(old.firstChild);
  for (const child of fresh) {
    const found = keyed.get(keyOf(child));
    if (found) {
      keyed.delete(keyOf(child));
      if (found === at) at = unkept(at.nextSibling);
      else old.insertBefore(found, at);
      patchNode(found, child);
    } else if (keyOf(child) || !at || keyOf(at)) {
      old.insertBefore(child, at);
    } else {
      const next = unkept(at.nextSibling);
      if (at.nodeName === child.nodeName) patchNode(at, child);
      else at.replaceWith(child);
      at = next;
    }
  }
  while (at) {
    const next = unkept(at.nextSibling);
    at.remove();
    at = next;
  }
}

/** Where the focus was, and what gets it when that is gone: the cell in its place, or what is nearest around it. */
function focusIn(place) {
  const focused = place.contains(document.activeElement) ? document.activeElement : null;
  if (!focused) return () => undefined;
  const around = [];
  for (let element = focused.parentElement; element && element !== place; element = element.parentElement) around.push(element);
  const cell = focused.closest("td"), row = focused.closest("tr"), rows = row?.parentElement;
  const rowIndex = row?.sectionRowIndex, cellIndex = cell?.cellIndex;
  return () => {
    if (document.activeElement === focused) return;
    if (focused.isConnected) return focused.focus({preventScroll: true}); // it was moved
    const inPlace = row && !row.isConnected && rows.isConnected &&
      rows.rows[Math.min(rowIndex, rows.rows.length - 1)]?.cells[cellIndex]?.querySelector(FOCUSABLE);
    const nearest = around.find((element) => element.isConnected && (element.matches(FOCUSABLE) || element.querySelector(FOCUSABLE)));
    const next = inPlace || (nearest?.matches(FOCUSABLE) ? nearest : nearest?.querySelector(FOCUSABLE)) ||
      document.querySelector("h1");
    next?.focus({preventScroll: true});
  };
}

/** Makes the children of `place` like `fresh`, elements and texts. What was typed stays, as do open details. */
export function patch(place, fresh) {
  const refocus = focusIn(place);
  const made = document.createElement("div");
  made.append(...fresh.flat());
  patchChildren(place, [...made.childNodes]);
  refocus();
}
