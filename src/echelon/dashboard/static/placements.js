// Placements: what each selects, in which groups, and why.
import { age, count, h, put, renew, table } from "./dom.js";
import { get, store } from "./store.js";

const address = (each) => `#/placements/${encodeURIComponent(each.namespace)}/${encodeURIComponent(each.name)}`;
const satisfied = (each) => h("span", { class: `state s-${each.satisfied === "True" ? "done" : each.satisfied ? "failed" : "waiting"}` },
  each.satisfied === "True" ? "satisfied" : each.reason || "not decided yet");
const titled = ([index, name]) => (name ? `${name} (${index})` : `group ${index}`);

export function placements(root) {
  const body = h("div", {});
  put(root, h("div", { class: "head" }, h("h1", {}, "Placements")), body);
  function draw() {
    const found = [...store.placements.values()].sort((one, other) => `${one.namespace}/${one.name}`.localeCompare(`${other.namespace}/${other.name}`));
    renew(body, table("Placements", ["Placement", "State", "Clusters", "Groups", "Age"], found.slice(0, 500).map((each) => h("tr", {},
      h("td", { class: "name" }, h("a", { href: address(each) }, each.name), h("span", { class: "sub" }, each.namespace)),
      h("td", {}, satisfied(each), each.satisfied !== "True" && h("span", { class: "sub clip", title: each.message }, each.message)),
      h("td", { class: "number" }, each.selected.toLocaleString("en")),
      h("td", { class: "text" }, each.groups.slice(0, 8).map((group) => h("span", { class: "chip" }, titled(group), " ", h("b", {}, group[2]))),
        each.groups.length > 8 && ` and ${each.groups.length - 8} more`),
      h("td", { class: "number" }, age(each.made)))), store.ready ? "There are no placements that you may see." : "Reading…"));
  }
  draw();
  return { update: (changed) => { if (changed.has("placements") || changed.has("ready")) draw(); } };
}

export function placement(root, namespace, name) {
  const head = h("div", {});
  const body = h("div", { "aria-live": "polite" });
  const cluster = h("input", { type: "search", "aria-label": "Cluster to explain", placeholder: "One cluster" });
  const ask = h("form", { class: "row", onsubmit: (event) => { event.preventDefault(); explain(); } },
    cluster, h("button", {}, "Explain"));
  put(root, h("p", { class: "crumbs" }, h("a", { href: "#/placements" }, "Placements")), head, h("h2", {}, "Why"), ask, body);

  function draw() {
    const each = store.placements.get(`${namespace}/${name}`);
    if (!each) { put(head, h("h1", {}, name), h("p", { class: "empty" }, store.ready ? "It is not there, or you may not see it." : "Reading…")); return; }
    put(head, h("div", { class: "head" }, h("h1", {}, each.name), h("span", { class: "sub" }, each.namespace), satisfied(each)),
      each.message && h("p", { class: "message" }, each.message),
      h("p", {}, `${count(each.selected, "clusters")} in ${count(each.groups.length, "groups")}`, each.sets.length > 0 && `, from ${each.sets.join(", ")}`),
      h("div", { class: "chips" }, each.groups.map((group) => h("span", { class: "chip" }, titled(group), " ", h("b", {}, group[2])))));
  }

  async function explain() {
    put(body, h("p", { class: "sub" }, "Asking…"));
    try {
      const found = await get("/api/explain", { namespace, name, cluster: cluster.value.trim() });
      const reasons = Object.entries(found.reasons).sort((one, other) => other[1] - one[1]);
      const groups = grouped(`${namespace}/${name}`);
      put(body,
        h("div", { class: "chips" }, reasons.map(([reason, number]) => h("span", { class: "chip" }, reason, " ", h("b", {}, number)))),
        table("Clusters", ["Cluster", "Selected", "Group", "Rank", "Score", "Why"], found.clusters.map((each) => h("tr", {},
          h("td", { class: "name" }, each.clusterName),
          h("td", {}, h("span", { class: `state s-${each.selected ? "done" : "waiting"}` }, each.selected ? "yes" : "no")),
          h("td", {}, groups.get(each.clusterName) ?? ""),
          h("td", { class: "number" }, each.rank ?? ""), h("td", { class: "number" }, each.score ?? ""),
          h("td", { class: "text" }, why(each)))), "There are no clusters."),
        found.total > found.clusters.length && h("p", { class: "sub" }, `The first ${found.clusters.length} of ${found.total}.`));
    } catch (error) { put(body, h("p", { class: "wrong" }, error.message)); }
  }
  draw();
  explain();
  return { update: (changed) => { if (changed.has("placements") || changed.has("ready")) draw(); } };
}

// The group of each cluster that a placement has selected.
function grouped(name) {
  const own = [...store.decisions.values()].filter((each) => each.placement === name);
  return new Map(own.flatMap((each) => each.clusters.map((cluster) => [cluster, titled(each.group)])));
}

function why(each) {
  const scores = each.scores.map((one) => `${one.name} ${one.score}${one.weight === 1 ? "" : ` × ${one.weight}`}`).join(", ");
  return [!each.selected && [h("b", {}, each.reason), ` ${each.message}`], !each.selected && scores && ". ", scores && `Scored by ${scores}`,
    each.toleratedUntil && `. A taint is tolerated until ${each.toleratedUntil}`];
}
