// All rollouts: how far each is, wave by wave, and what it waits for.
import { age, bar, h, put, renew, state, table, told } from "./dom.js";
import { store } from "./store.js";

export const address = (each) => `#/rollouts/${[each.kind, each.namespace, each.name].map(encodeURIComponent).join("/")}`;
const KINDS = { manifestworkreplicaset: "work set", podcliqueset: "pod clique set" };
export const called = (kind) => KINDS[kind] ?? kind;
const URGENT = ["stopped", "misconfigured", "held", "cannot be read", "awaiting approval", "disturbed", "paused", "going back", "rolling out"];

export function urgency(each) {
  const found = URGENT.indexOf(each.state);
  return found < 0 ? URGENT.length : found;
}

export function rollouts(root) {
  const body = h("div", {});
  const filter = h("input", { type: "search", "aria-label": "Filter rollouts", placeholder: "Filter", oninput: draw });
  put(root, h("div", { class: "head" }, h("h1", {}, "Rollouts"), filter), body);

  function draw() {
    const wanted = filter.value.trim().toLowerCase();
    const found = [...store.rollouts.values()]
      .filter((each) => `${each.namespace}/${each.name} ${each.kind} ${each.state}`.toLowerCase().includes(wanted))
      .sort((one, other) => urgency(one) - urgency(other) || `${one.namespace}/${one.name}`.localeCompare(`${other.namespace}/${other.name}`));
    renew(body, table("Rollouts", ["Rollout", "State", "Progress", "Done", "Waves", "Revision", "Age"], found.slice(0, 500).map(row),
      store.ready ? "There are no rollouts that you may see." : "Reading…"));
  }
  draw();
  return { update: (changed) => { if (changed.has("rollouts") || changed.has("ready")) draw(); } };
}

function row(each) {
  return h("tr", {},
    h("td", { class: "name" }, h("a", { href: address(each) }, each.name), h("span", { class: "sub" }, `${each.namespace} · ${called(each.kind)}`)),
    h("td", {}, state(each.state), each.message && h("span", { class: "sub clip", title: each.message }, each.message)),
    h("td", { class: "wide" }, bar(each.counts, each.total), h("span", { class: "sub" }, told(each.counts))),
    h("td", { class: "number" }, `${(each.counts.done ?? 0).toLocaleString("en")}/${each.total.toLocaleString("en")}`),
    h("td", { class: "text" }, each.groups.length ? waves(each) : h("span", { class: "sub" }, each.note)),
    h("td", { class: "number" }, each.number || ""),
    h("td", { class: "number" }, age(each.made)));
}

export function waves(each) {
  const shown = each.groups.slice(0, 12);
  return h("span", { class: "waves", role: "img", "aria-label": each.groups.map((group) => `${group.title}: ${told(group.counts)}`).join("; ") },
    shown.map((group) => h("span", { class: group.active ? "wave active" : "wave", title: `${group.title}: ${told(group.counts)}` }, bar(group.counts, group.total))),
    each.groups.length > shown.length && h("span", { class: "sub" }, `+${each.groups.length - shown.length}`));
}
