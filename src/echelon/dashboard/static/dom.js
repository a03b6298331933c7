// Makes elements. Text gets into them as text and in no other way: whatever a cluster is called, it is never markup.

export function h(tag, attributes, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "class" || name === "id" || name === "value" || name === "checked" || name === "disabled") {
      element[name === "class" ? "className" : name] = value;
    } else element.setAttribute(name, value === true ? "" : String(value));
  }
  put(element, ...children);
  return element;
}

export function put(element, ...children) {
  element.replaceChildren(
    ...children.flat(6).filter((each) => each !== null && each !== undefined && each !== false && each !== "")
      .map((each) => (each instanceof Node ? each : document.createTextNode(String(each)))),
  );
  return element;
}

// Puts something new in place of what was there, and leaves the keyboard and what is scrolled where they were: whoever
// walks through a list must not be thrown out of it because something in it has changed.
export function renew(element, ...children) {
  const at = document.activeElement, mark = at && at !== element && element.contains(at) ? marked(at) : "";
  const scrolled = new Map([...element.querySelectorAll(".scroll")].map((each) => [marked(each), each.scrollLeft]));
  put(element, ...children);
  for (const each of element.querySelectorAll(".scroll")) each.scrollLeft = scrolled.get(marked(each)) ?? 0;
  if (mark) [...element.querySelectorAll(at.tagName)].find((each) => marked(each) === mark)?.focus({ preventScroll: true });
  return element;
}

const marked = (each) => each.getAttribute("href") ?? each.dataset.verb ?? each.getAttribute("aria-label") ?? each.closest("[data-key]")?.dataset.key ?? "";

// What was said, with the names of clusters in one piece: eu-02 is not to be broken after the hyphen.
export const named = (names, most) => [names.slice(0, most).map((each, index) => [index ? ", " : "", h("span", { class: "whole" }, each)]),
  names.length > most && ` and ${names.length - most} more`];

export function age(time) {
  const seconds = Math.max(0, Math.round((Date.now() - (typeof time === "number" ? time : Date.parse(time))) / 1000));
  if (!Number.isFinite(seconds)) return "";
  if (seconds < 120) return `${seconds}s`;
  if (seconds < 7200) return `${Math.floor(seconds / 60)}m`;
  if (seconds < 172800) return `${Math.floor(seconds / 3600)}h`;
  return `${Math.floor(seconds / 86400)}d`;
}

export function when(time) {
  const text = age(time);
  return h("time", { datetime: time, title: time }, text ? `${text} ago` : "");
}

// How long a cluster has been where it is, or has left: what follows from the time is told here, and goes on.
export function clock(state, since, until) {
  const element = h("span", { class: "sub", "data-clock": state, "data-since": since, "data-until": until });
  tick(element);
  return element;
}

export function tick(element) {
  const { clock: state, since, until } = element.dataset;
  const text = clocked(state, since, until);
  if (element.textContent !== text) element.textContent = text;
}

export function clocked(state, since, until) {
  const left = until ? age(Date.now() * 2 - Date.parse(until)) : "";
  if (state === "soaking" && left) return `${left} more`;
  if (state === "timed out" && until) return `${age(until)} ago`;
  if (state === "done") return since ? `${age(since)} ago` : "";
  if (state === "waiting" || state === "skipped") return "";
  return `${since ? age(since) : ""}${left ? `, deadline in ${left}` : ""}`;
}

export function count(number, noun) {
  return `${number.toLocaleString("en")} ${number === 1 ? noun.replace(/s$/, "") : noun}`;
}

// States of clusters, in the order in which they are drawn; each has a colour in the style sheet and a mark, for
// colour alone tells nothing to many.
export const STATES = ["done", "soaking", "in flight", "failed", "timed out", "waiting", "skipped", "outdated"];
const MARKS = {
  done: "✓", soaking: "◔", "in flight": "▸", failed: "✕", "timed out": "✕", waiting: "·", skipped: "–", outdated: "○",
};
export const slug = (state) => String(state).toLowerCase().replace(/[^a-z]+/g, "-");
export const mark = (state) => h("span", { class: `mark s-${slug(state)}`, "aria-hidden": "true" }, MARKS[state] ?? "•");

export function state(text) {
  return h("span", { class: `state s-${slug(text)}` }, text);
}

// A bar of how many are in which state.
export function bar(counts, total, label) {
  const element = h("span", { class: "bar", role: "img", "aria-label": label ?? told(counts) });
  for (const name of STATES) {
    if (!counts[name]) continue;
    const part = h("span", { class: `s-${slug(name)}`, title: `${counts[name]} ${name}` });
    part.style.flexGrow = String(counts[name]);
    element.append(part);
  }
  if (!total) element.append(h("span", { class: "s-waiting" }));
  return element;
}

export function told(counts) {
  return STATES.filter((each) => counts[each]).map((each) => `${counts[each]} ${each}`).join(", ") || "nothing yet";
}

// On a narrow screen a row is a block, and each cell says what it is; the roles keep it a table for who has it read out.
export function table(caption, headers, rows, empty) {
  if (!rows.length) return h("p", { class: "empty" }, empty);
  for (const row of rows) {
    row.setAttribute("role", "row");
    [...row.children].forEach((cell, index) => { cell.setAttribute("role", "cell"); cell.dataset.label = headers[index]; });
  }
  return h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": caption },
    h("table", { role: "table" },
      h("caption", { class: "unseen" }, caption),
      h("thead", { role: "rowgroup" }, h("tr", { role: "row" }, headers.map((each) => h("th", { scope: "col", role: "columnheader" }, each)))),
      h("tbody", { role: "rowgroup" }, rows)));
}

export function bounded(list, most, make, noun) {
  const shown = list.slice(0, most).map(make);
  if (list.length > most) shown.push(h("li", { class: "more" }, `${list.length - most} more ${noun}`));
  return shown;
}

export function focusable(element) {
  return [...element.querySelectorAll("a[href],button:not([disabled]),input:not([disabled]),select,textarea")];
}
