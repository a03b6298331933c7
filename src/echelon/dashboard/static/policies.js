// Policies: what clusters say of them. How far they are enforced is the matter of their rollout.
import { h, put, renew, state, table } from "./dom.js";
import { address } from "./rollouts.js";
import { store } from "./store.js";

const LEVELS = [["NonCompliant", "failed"], ["Pending", "in-flight"], ["Unknown", "waiting"], ["Compliant", "done"]];
const CALLED = { NonCompliant: "not compliant", Pending: "pending", Unknown: "unknown", Compliant: "compliant" };

export function policies(root) {
  const body = h("div", {});
  put(root, h("div", { class: "head" }, h("h1", {}, "Policies")), body);
  function draw() {
    const found = [...store.policies.values()].sort((one, other) => bad(other) - bad(one) || one.name.localeCompare(other.name));
    renew(body, table("Policies", ["Policy", "Action", "Compliance", "Clusters", "Not compliant", "Rollout"], found.slice(0, 500).map(row),
      store.unseen["policies.policy.open-cluster-management.io"] ? "The hub has no policies, or you may not see them." : "There are no policies that you may see."));
  }
  draw();
  return { update: (changed) => { if (["policies", "rollouts", "ready", "unseen"].some((each) => changed.has(each))) draw(); } };
}

const bad = (each) => each.counts.NonCompliant * 2 + each.counts.Pending;

function row(each) {
  const rollout = [...store.rollouts.values()].find((one) => one.kind === "policy" && one.namespace === each.namespace && one.name === each.name);
  const total = LEVELS.reduce((sum, [name]) => sum + each.counts[name], 0);
  const worst = each.clusters.filter((one) => one[1] === "NonCompliant").map((one) => one[0]);
  const words = LEVELS.filter(([name]) => each.counts[name]).map(([name]) => `${each.counts[name]} ${CALLED[name]}`).join(", ") || "no clusters";
  const shown = h("span", { class: "bar", role: "img", "aria-label": words });
  for (const [name, colour] of [...LEVELS].reverse()) {
    if (!each.counts[name]) continue;
    const part = h("span", { class: `s-${colour}`, title: `${each.counts[name]} ${name}` });
    part.style.flexGrow = String(each.counts[name]);
    shown.append(part);
  }
  return h("tr", {},
    h("td", { class: "name" }, rollout ? h("a", { href: address(rollout) }, each.name) : each.name, h("span", { class: "sub" }, each.namespace)),
    h("td", {}, each.action || "as its templates say"),
    h("td", {}, h("span", { class: `state s-${LEVELS.find(([name]) => name === each.compliant)?.[1] ?? "waiting"}` }, CALLED[each.compliant] ?? "unknown")),
    h("td", { class: "wide" }, total > 0 && shown, h("span", { class: "sub" }, words)),
    h("td", { class: "text" }, worst.slice(0, 6).join(", "), worst.length > 6 && ` and ${worst.length - 6} more`),
    h("td", {}, rollout ? state(rollout.state) : each.rollout));
}
