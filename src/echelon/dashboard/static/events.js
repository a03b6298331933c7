// What controllers and agents have said lately.
import { h, put, table, when } from "./dom.js";
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
    put(body, table("Events", ["When", "Reason", "About", "What", "Times"], found.slice(0, 300).map(row),
      store.unseen["events.events.k8s.io"] ? `Events may not be seen: ${store.unseen["events.events.k8s.io"]}` : "Nothing was said in the last hour."));
  }
  draw();
  return { update: (changed) => { if (changed.has("events") || changed.has("ready")) draw(); } };
}

function row(each) {
  return h("tr", {},
    h("td", { class: "number" }, when(each.at)),
    h("td", {}, h("span", { class: each.type === "Warning" ? "state s-failed" : "state" }, each.reason)),
    h("td", { class: "name" }, each.name, h("span", { class: "sub" }, [each.namespace, each.kind].filter(Boolean).join(" · "))),
    h("td", { class: "text" }, each.note),
    h("td", { class: "number" }, each.count));
}
