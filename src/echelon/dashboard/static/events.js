// What controllers and agents have said lately.
import { h, put, renew, table, when } from "./dom.js";
import { called } from "./rollouts.js";
import { store } from "./store.js";

export function events(root) {
  const body = h("div", {});
  const filter = h("input", { type: "search", "aria-label": "Filter events", placeholder: "Filter", oninput: draw });
  const warnings = h("input", { type: "checkbox", id: "warnings", onchange: draw });
  put(root, h("div", { class: "head" }, h("h1", {}, "Events"), filter,
    h("label", { class: "check", for: "warnings" }, warnings, "Warnings only")), body);

  function draw() {
    const wanted = filter.value.trim().toLowerCase();
    const found = [...store.events.values()]
      .filter((each) => !warnings.checked || each.type === "Warning")
      .filter((each) => `${each.namespace}/${each.name} ${each.kind} ${each.reason} ${each.note}`.toLowerCase().includes(wanted))
      .sort((one, other) => (one.at < other.at ? 1 : -1));
    renew(body, table("Events", ["When", "Reason", "About", "What", "Times"], found.slice(0, 300).map(row),
      store.unseen["events.events.k8s.io"] ? `Events may not be seen: ${store.unseen["events.events.k8s.io"]}` : "Nothing was said in the last hour."));
  }
  draw();
  return { update: (changed) => { if (changed.has("events") || changed.has("ready")) draw(); } };
}

function row(each) {
  return h("tr", {},
    h("td", { class: "number" }, when(each.at)),
    h("td", {}, reason(each.type, each.reason)),
    h("td", { class: "name" }, each.name, h("span", { class: "sub" }, [each.namespace, called(each.kind.toLowerCase())].filter(Boolean).join(" · "))),
    h("td", { class: "text" }, each.note),
    h("td", { class: "number" }, each.count));
}

// Colour alone does not tell everybody what is a warning.
export function reason(type, text) {
  if (type !== "Warning") return h("span", { class: "state" }, text);
  return h("span", { class: "state s-failed" }, h("span", { class: "unseen" }, "Warning: "), h("span", { "aria-hidden": "true" }, "! "), text);
}
