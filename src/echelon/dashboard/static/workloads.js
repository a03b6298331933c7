// Federated workloads: one budget over all clusters, what of it is used, and what each cluster was granted.
import { count, h, put, renew, state, table } from "./dom.js";
import { address } from "./rollouts.js";
import { store } from "./store.js";

export function workloads(root) {
  const body = h("div", {});
  put(root, h("div", { class: "head" }, h("h1", {}, "Federated workloads")), body);
  function draw() {
    const open = new Set([...body.querySelectorAll("details[open]")].map((each) => each.dataset.key));
    const found = [...store.workloads].sort((one, other) => one[0].localeCompare(other[0]));
    renew(body, found.length ? found.slice(0, 200).map(([key, each]) => card(key, each, open.has(key)))
      : h("p", { class: "empty" }, "There are no federated workloads that you may see."));
  }
  draw();
  return { update: (changed) => { if (["workloads", "rollouts", "ready"].some((each) => changed.has(each))) draw(); } };
}

function card(key, each, open) {
  const rollout = store.rollouts.get(`resourcebindings.work.karmada.io/${key}`);
  return h("section", { class: "card" },
    h("h2", {}, rollout ? h("a", { href: address(rollout) }, rollout.name) : each.name,
      h("span", { class: "sub" }, `${each.namespace}${rollout ? ` · ${rollout.kind}` : ""}`), rollout && state(rollout.state)),
    rollout?.message && h("p", { class: "message" }, rollout.message),
    h("dl", { class: "figures" },
      figure("Available", `${each.available} of ${each.total}`, each.available, each.total),
      figure("Updated", `${each.updated} of ${each.total}`, each.updated, each.total),
      each.unavailable && budget("May be missing", each.unavailable),
      each.surge && budget("May be too many", each.surge),
      each.partition > 0 && figure("Stay old", String(each.partition))),
    each.stalled && h("p", { class: "wrong" }, `Nothing has moved since ${each.stalled}, although too few pods are available.`),
    h("details", { "data-key": key, open },
      h("summary", {}, count(each.clusters.length, "clusters")),
      table("What each cluster was granted", ["Cluster", "Updated", "Available", "Granted", "Pods", "Waits for"],
        each.clusters.slice(0, 300).map(([name, updated, available, replicas, pods, wait, message]) => h("tr", {},
          h("td", { class: "name" }, name), ...[updated, available, replicas, pods].map((number) => h("td", { class: "number" }, number)),
          h("td", { class: "text" }, wait ? message || wait : ""))), "No cluster has been granted anything yet.")));
}

function figure(term, text, part, whole) {
  const meter = whole ? h("meter", { min: "0", max: whole, value: Math.max(0, part), "aria-label": term }) : null;
  return h("div", {}, h("dt", {}, term), h("dd", {}, text), meter);
}

function budget(term, [used, all]) {
  return figure(term, `${used} of ${all} used, ${Math.max(0, all - used)} left`, used, all);
}
