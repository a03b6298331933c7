// One rollout: its waves, every cluster that is not fine with the reason, its revisions, and what happened.
import { age, bar, count, h, mark, put, slug, state, told, when } from "./dom.js";
import { called } from "./rollouts.js";
import { get, store } from "./store.js";
import { buttons } from "./verbs.js";

const QUIET = new Set(["done", "waiting", "skipped"]);
const MOST = 12; // clusters of a group that are shown as lines unless somebody asks for more
const ORDER = ["failed", "timed out", "in flight", "soaking"];

export function rollout(root, kind, namespace, name) {
  const body = h("div", {});
  const said = h("p", { class: "done", role: "status" });
  let shown = "", timer = 0, asking = false, again = false, drawnAt = 0;
  const open = new Set();
  put(root, h("p", { class: "crumbs" }, h("a", { href: "#/rollouts" }, "Rollouts")), said, body);

  function own() {
    for (const each of store.rollouts.values()) if (each.kind === kind && each.namespace === namespace && each.name === name) return each;
    return null;
  }

  async function read() {
    if (asking) { again = true; return; }
    asking = true;
    try { draw(await get("/api/rollout", { kind, namespace, name })); } catch (error) {
      if (!shown) put(body, h("h1", {}, name), h("p", { class: "wrong" }, error.message));
    } finally {
      asking = false;
      drawnAt = Date.now();
      if (again) { again = false; later(); }
    }
  }

  function later() {
    clearTimeout(timer);
    timer = setTimeout(read, Math.max(0, drawnAt + 300 - Date.now()));
  }

  function draw(found) {
    const text = JSON.stringify(found);
    if (text === shown) return;
    shown = text;
    const focus = document.activeElement?.dataset?.verb;
    for (const each of body.querySelectorAll("details[data-key]")) each.open ? open.add(each.dataset.key) : open.delete(each.dataset.key);
    put(body,
      h("div", { class: "head" }, h("h1", {}, found.name), h("span", { class: "sub" }, `${found.namespace} · ${called(found.kind)} · revision ${found.number || "not stored yet"} · ${age(found.made)}`), state(found.state),
        buttons(found, (words) => { put(said, words); read(); })),
      found.message && h("p", { class: "message" }, found.message),
      found.note && h("p", { class: "sub" }, found.note),
      found.budget && h("p", { class: "sub" }, `Budget: ${found.budget}`),
      h("div", { class: "progress" }, bar(found.counts, found.total), h("span", { class: "sub" }, `${count(found.total, found.noun)}: ${told(found.counts)}`)),
      h("div", { class: "columns" },
        h("section", { "aria-label": "Waves" }, h("h2", {}, found.groups.length ? "Waves" : "Parts"),
          found.groups.map((group, index) => wave(group, found.waves[index] ?? [], open)), found.parts.length > 0 && parts(found.parts)),
        h("section", { "aria-label": "What happened" }, h("h2", {}, "Timeline"), timeline(found.timeline), h("h2", {}, "Revisions"), revisions(found.revisions))));
    if (focus) body.querySelector(`[data-verb="${CSS.escape(focus)}"]`)?.focus();
  }

  read();
  let last = JSON.stringify(own());
  return {
    update(changed) {
      if (!changed.has("rollouts") && !changed.has("events")) return;
      const now = JSON.stringify(own());
      if (now !== last || changed.has("events")) { last = now; later(); }
    },
    close() { clearTimeout(timer); },
  };
}

function wave(group, clusters, open) {
  const loud = clusters.filter((each) => !QUIET.has(each[1])).sort((one, other) => ORDER.indexOf(one[1]) - ORDER.indexOf(other[1]));
  const key = `${group.placement}/${group.title}`;
  const folded = `${key}/more`;
  const rest = clusters.filter((each) => QUIET.has(each[1]));
  return h("article", { class: group.active ? "card active" : "card" },
    h("h3", {}, group.title, h("span", { class: "sub" }, `${group.placement} · ${told(group.counts)}`)),
    bar(group.counts, group.total),
    group.message && h("p", { class: "message" }, group.message),
    loud.length > 0 && h("ul", { class: "tree" }, loud.slice(0, MOST).map(line)),
    loud.length > MOST && h("details", { "data-key": folded, open: open.has(folded) }, h("summary", {}, `${count(loud.length - MOST, "clusters")} more that move or failed`),
      h("ul", { class: "tree" }, loud.slice(MOST, 400).map(line), loud.length > 400 && h("li", { class: "more" }, `${loud.length - 400} more`))),
    rest.length > 0 && h("details", { "data-key": key, open: open.has(key) }, h("summary", {}, `${count(rest.length, "clusters")} ${restTold(rest)}`),
      h("ul", { class: "names" }, rest.slice(0, 400).map(([name, text, , message]) => h("li", { class: `s-${slug(text)}`, title: message || text }, mark(text), name)), rest.length > 400 && h("li", { class: "more" }, `${rest.length - 400} more`))));
}

function restTold(rest) {
  return [...new Set(rest.map((each) => each[1]))].join(" or ");
}

function line([name, text, since, message, objects]) {
  // What the cluster's own message says already is not said twice.
  const others = objects.filter(([title, is, words]) => is !== "done" && !(message.includes(title) && message.includes(words))).slice(0, 30);
  return h("li", {}, mark(text), h("b", {}, name), " ", state(text), since && h("span", { class: "sub" }, ` ${since}`),
    message && h("p", { class: "message" }, message),
    others.length > 0 && h("ul", { class: "tree" }, others.map(([title, is, words]) => h("li", {}, mark(is), title, words && h("p", { class: "message" }, words)))));
}

function parts(lines) {
  return h("ul", { class: "tree" }, lines.slice(0, 200).map((each) => h("li", {}, mark(each.state), h("b", {}, each.title), " ", h("span", { class: "sub" }, each.text),
    each.message && h("p", { class: "message" }, each.message), each.parts.length > 0 && parts(each.parts))));
}

function timeline(entries) {
  if (!entries.length) return h("p", { class: "empty" }, "Nothing was said of it in the last hour.");
  return h("ol", { class: "timeline" }, entries.slice(0, 40).map((each) => h("li", { class: each.type === "Warning" ? "warning" : "" },
    when(each.at), " ", h("b", {}, each.what), each.note && h("p", { class: "message" }, each.note))));
}

function revisions(list) {
  if (!list.length) return h("p", { class: "empty" }, "No revision is stored yet.");
  return h("ul", { class: "plain" }, [...list].reverse().map((each) => h("li", {}, h("b", {}, `revision ${each.number}`), each.present && h("span", { class: "chip" }, "present"),
    h("span", { class: "sub" }, each.completed ? ["complete ", when(each.completed)] : "never complete"),
    h("p", { class: "message" }, Object.entries(each.told).filter((one) => one[1]).map(([key, value]) => `${key}: ${value}`).join(", ")))));
}
