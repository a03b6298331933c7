// The map: every cluster is a cell. What the cells are grouped by and what they show can be chosen.
import { clock, count, h, put, STATES, slug, state } from "./dom.js";
import { FleetMap } from "./fleet_map.js";
import { NAME as CLUSTER, OpenRollout, STATE } from "./opened.js";
import { address } from "./rollouts.js";
import { get, store } from "./store.js";

// Columns of a row of the table `clusters`.
const NAME = 0, HEALTH = 1, SET = 2, REGION = 3, ENVIRONMENT = 4, VERSION = 5, TAINTS = 6;
const HEALTHS = { ok: ["available", "done"], ill: ["not available", "failed"], silent: ["not heard of", "timed-out"], new: ["not joined", "waiting"] };
const BY = { set: ["Cluster set", SET], region: ["Region", REGION], environment: ["Environment", ENVIRONMENT], version: ["Version", VERSION] };
const LEVELS = { Compliant: "done", NonCompliant: "failed", Pending: "in-flight", Unknown: "waiting" };
const kept = { by: "region", shows: "health" };

export function fleet(root) {
  const by = h("select", { id: "by", onchange: () => { kept.by = by.value; draw(); } });
  const shows = h("select", { id: "shows", onchange: () => { kept.shows = shows.value; ask(); } });
  const find = h("input", { type: "search", "aria-label": "Find clusters by name", placeholder: "Find a cluster", oninput: () => draw() });
  const summary = h("p", { class: "sub", "aria-live": "polite" });
  const legend = h("ul", { class: "legend", "aria-label": "What the colours mean" });
  const panel = h("aside", { class: "panel", "aria-label": "Cluster", hidden: true });
  const canvas = h("canvas", {});
  const nobody = h("p", { class: "empty", hidden: true });
  const map = new FleetMap(canvas, document.getElementById("told"), opened);
  let states = null; // of the rollout or policy that is shown, by cluster
  let chosen = null; // the rollout that is shown
  let asked = 0, timer = 0;
  put(root, h("div", { class: "head" }, h("h1", {}, "Fleet"),
    h("span", { class: "pair" }, h("label", { for: "by" }, "Grouped by"), by), h("span", { class: "pair" }, h("label", { for: "shows" }, "Showing"), shows), find), summary, legend, nobody,
    h("div", { class: "map" }, canvas, panel));

  function options() {
    const offered = (list, value) => list.map(([key, text]) => h("option", { value: key, selected: key === value }, text));
    const groups = Object.entries(BY).map(([key, [text]]) => [key, text]);
    put(by, offered([...groups, ...[...store.placements.keys()].sort().map((key) => [`placement:${key}`, `Groups of ${key}`])], kept.by));
    const rollouts = [...store.rollouts.values()].filter((each) => each.groups.length).map((each) => [`rollout:${each.kind}/${each.namespace}/${each.name}`, `Rollout ${each.namespace}/${each.name}`]);
    const policies = [...store.policies.keys()].map((key) => [`policy:${key}`, `Policy ${key}`]);
    put(shows, offered([["health", "Health"], ...rollouts.sort(), ...policies.sort()], kept.shows));
    if (!by.value) { kept.by = "region"; by.value = "region"; }
    if (!shows.value) { kept.shows = "health"; shows.value = "health"; }
  }

  async function ask() {
    const [what, name] = split(kept.shows), mine = ++asked;
    if (what === "policy") states = new Map((store.policies.get(name)?.clusters ?? []).map(([cluster, level]) => [cluster, [level, LEVELS[level] ?? "waiting"]]));
    else if (what === "rollout") {
      if (chosen?.of !== name) chosen = { of: name, rollout: new OpenRollout(...name.split("/")) };
      const { rollout } = chosen;
      try {
        await rollout.read();
        if (mine !== asked) return;
        states = new Map(rollout.waves.flat().map((row) => [row[CLUSTER], [row[STATE], slug(row[STATE])]]));
      } catch { states = new Map(); }
    } else states = null;
    draw();
  }

  function draw() {
    const wanted = find.value.trim().toLowerCase();
    const rows = known().filter((row) => row[NAME].toLowerCase().includes(wanted));
    const groups = grouped(rows, kept.by);
    const counts = new Map();
    const cells = groups.map(([title, members]) => [title, members.map((row) => {
      const [text, colour] = states ? states.get(row[NAME]) ?? ["not in it", "none"] : HEALTHS[row[HEALTH]] ?? ["unknown", "none"];
      counts.set(text, [(counts.get(text)?.[0] ?? 0) + 1, colour]);
      return { name: row[NAME], text, colour, marked: Boolean(row[TAINTS]) };
    })]);
    map.show(cells);
    nobody.hidden = rows.length > 0 || !store.ready;
    canvas.parentElement.hidden = !nobody.hidden;
    if (!rows.length) { put(summary, store.ready ? "" : "Reading…"); put(legend); put(nobody, wanted ? "No cluster is called so." : unlisted() ? "No placement of your namespaces selects a cluster." : "No cluster has joined this hub yet. \u201cechelon cluster join NAME\u201d tells how one does."); return; }
    put(summary, `${count(rows.length, "clusters")} in ${count(groups.length, "groups")}`,
      unlisted() && " · you may not list clusters, so these are the ones that placements of your namespaces select");
    const ordered = [...counts].sort((one, other) => rank(one[0]) - rank(other[0]));
    put(legend, ordered.map(([text, [number, colour]]) => h("li", {}, h("span", { class: `cell s-${colour}`, "aria-hidden": "true" }), `${text} `, h("b", {}, number.toLocaleString("en")))));
  }

  function shut() { panel.hidden = true; canvas.focus(); }
  panel.addEventListener("keydown", (event) => { if (event.key === "Escape") shut(); });

  async function opened(name) {
    panel.hidden = false;
    const rollouts = [...store.rollouts.values()].filter((each) => each.groups.length).slice(0, 20);
    const close = h("button", { class: "quiet", "aria-label": "Close", onclick: shut }, "✕");
    put(panel, h("div", { class: "head" }, h("h2", {}, name), close), h("p", { class: "sub" }, "Reading…"));
    const [cluster, ...standing] = await Promise.allSettled([get("/api/cluster", { name }),
      ...rollouts.map((each) => get("/api/rollout/cluster", { kind: each.kind, namespace: each.namespace, name: each.name, cluster: name }))]);
    const found = standing.map((each, index) => ({ rollout: rollouts[index], is: each.status === "fulfilled" ? each.value : null })).filter((each) => each.is)
      .sort((one, other) => rank(one.is.state) - rank(other.is.state));
    put(panel, h("div", { class: "head" }, h("h2", {}, name), close),
      h("h3", {}, "Rollouts"),
      found.length ? h("ul", { class: "plain" }, found.map((each) => standingIn(each.rollout, each.is))) : h("p", { class: "sub" }, "It has no part in a rollout that you may see."),
      h("h3", {}, "Cluster"),
      cluster.status === "fulfilled" ? facts(cluster.value) : h("p", { class: "sub" }, cluster.reason.message));
    close.focus();
  }

  options();
  if (kept.shows === "health") draw(); else ask();
  return {
    update(changed) {
      if (["placements", "rollouts", "policies", "session"].some((each) => changed.has(each)) && document.activeElement !== by && document.activeElement !== shows) options();
      if (changed.has("theme")) map.recolour();
      const [what] = split(kept.shows);
      if (what === "rollout" && changed.has("rollouts")) { clearTimeout(timer); timer = setTimeout(ask, 50); }
      else if (what === "policy" && changed.has("policies")) ask();
      else if (["clusters", "decisions", "theme", "ready", "unseen"].some((each) => changed.has(each))) draw();
    },
    close() { clearTimeout(timer); map.close(); },
  };
}

const unlisted = () => store.unseen["managedclusters.cluster.open-cluster-management.io"];
const split = (text) => { const at = text.indexOf(":"); return at < 0 ? [text, ""] : [text.slice(0, at), text.slice(at + 1)]; };
const ORDER = ["not available", "not heard of", "failed", "timed out", "NonCompliant", "in flight", "Pending", "soaking", "waiting", "not joined", "done", "available"];
const rank = (text) => { const at = ORDER.indexOf(text); return at < 0 ? ORDER.length + STATES.indexOf(text) : at; };

// Who may not list clusters knows those that placements tell.
function known() {
  if (store.clusters.size) return [...store.clusters.values()];
  const names = new Set([...store.decisions.values()].flatMap((each) => each.clusters));
  return [...names].sort().map((name) => [name, "", "", "", "", "", ""]);
}

function grouped(rows, by) {
  const [what, name] = split(by);
  const groups = new Map();
  const add = (title, order, row) => { if (!groups.has(title)) groups.set(title, [order, []]); groups.get(title)[1].push(row); };
  if (what === "placement") {
    const rowsByName = new Map(rows.map((row) => [row[NAME], row]));
    for (const each of store.decisions.values()) {
      if (each.placement !== name) continue;
      const [index, called] = each.group;
      for (const cluster of each.clusters) if (rowsByName.has(cluster)) add(called ? `${called} (${index})` : `group ${index}`, index, rowsByName.get(cluster));
    }
    const placed = new Set([...groups.values()].flatMap((each) => each[1].map((row) => row[NAME])));
    for (const row of rows) if (!placed.has(row[NAME])) add("not selected", Infinity, row);
  } else {
    const column = BY[what]?.[1] ?? REGION;
    for (const row of rows) add(row[column] || "none", 0, row);
  }
  return [...groups].sort(([one, [first]], [other, [second]]) => (first === second ? (one === "none") - (other === "none") || one.localeCompare(other, "en", { numeric: true }) : first - second))
    .map(([title, [, members]]) => [title, members.sort((one, other) => (one[NAME] < other[NAME] ? -1 : 1))]);
}

// How a cluster stands in a rollout; objects say what the cluster's own message does not say already.
function standingIn(rollout, is) {
  const objects = is.objects.filter(([title, state, words]) => state !== "done" && !(is.message.includes(title) && is.message.includes(words)));
  return h("li", {}, h("a", { href: address(rollout) }, rollout.name), " ", state(is.state), " ", clock(is.state, is.since, is.until),
    is.message && h("p", { class: "message" }, is.message),
    objects.length > 0 && h("ul", { class: "plain objects" }, objects.slice(0, 20).map(([title, state_, words]) => h("li", {}, state(state_), ` ${title}`, words && h("p", { class: "message" }, words)))));
}

const CONDITIONS = { HubAcceptedManagedCluster: "Accepted", ManagedClusterJoined: "Joined", ManagedClusterConditionAvailable: "Available" };

function facts(cluster) {
  const pairs = [["Kubernetes", cluster.version], ["CPU", cluster.capacity.cpu], ["Memory", cluster.capacity.memory],
    ["Labels", Object.entries(cluster.labels).map(([key, value]) => h("div", {}, `${key}=${value}`))],
    ["Taints", cluster.taints.map((each) => `${each.key}${each.value ? `=${each.value}` : ""}:${each.effect}`).join(", ")],
    ...cluster.conditions.map((each) => [CONDITIONS[each.type] ?? each.type, `${each.status}${each.message ? `: ${each.message}` : ""}`])];
  return h("dl", { class: "facts" }, pairs.filter((each) => each[1]?.length).map(([term, text]) => [h("dt", {}, term), h("dd", {}, text)]));
}
