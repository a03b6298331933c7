// One rollout: its waves, every cluster that is not fine with the reason, its revisions, and what happened.
import { age, bar, clock, clocked, count, h, mark, put, renew, slug, state, tick, told, when } from "./dom.js";
import { reason } from "./events.js";
import { NAME, OBJECTS, OpenRollout, SAID, SINCE, STATE, UNTIL } from "./opened.js";
import { called } from "./rollouts.js";
import { store } from "./store.js";
import { buttons } from "./verbs.js";

const QUIET = new Set(["done", "waiting", "skipped"]);
const MOST = 12; // clusters of a group that are shown as lines unless somebody asks for more
const LONGEST = 400; // and then
const ORDER = ["failed", "timed out", "in flight", "soaking"];

export function rollout(root, kind, namespace, name) {
  const body = h("div", {});
  const said = h("p", { class: "done", role: "status" });
  const opened = new OpenRollout(kind, namespace, name);
  const ticking = setInterval(() => { for (const each of body.querySelectorAll("[data-clock]")) tick(each); }, 1000);
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
    try { draw(await opened.read()); } catch (error) {
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
    const text = JSON.stringify({ ...found, version: opened.version });
    if (text === shown) return;
    shown = text;
    for (const each of body.querySelectorAll("details[data-key]")) each.open ? open.add(each.dataset.key) : open.delete(each.dataset.key);
    renew(body,
      h("div", { class: "head" }, h("h1", {}, found.name), h("span", { class: "sub" }, `${found.namespace} · ${called(found.kind)} · revision ${found.number || "not stored yet"} · created ${age(found.made)} ago`), state(found.state),
        buttons(found, (words) => { put(said, words); read(); })),
      found.message && h("p", { class: "message" }, found.message),
      found.note && h("p", { class: "sub" }, found.note),
      found.budget && h("p", { class: "sub" }, `Budget: ${found.budget}`),
      h("div", { class: "progress" }, bar(found.counts, found.total), h("span", { class: "sub" }, `${count(found.total, found.noun)}: ${told(found.counts)}`)),
      h("div", { class: "columns" },
        h("section", { "aria-label": "Waves" }, h("h2", {}, found.groups.length ? "Waves" : "Parts"),
          found.groups.map((group, index) => wave(group, opened.waves[index] ?? [], open)), found.parts.length > 0 && parts(found.parts)),
        h("section", { "aria-label": "What happened" }, h("h2", {}, "Timeline"), timeline(found.timeline), h("h2", {}, "Revisions"), revisions(found.revisions))));
  }

  read();
  let last = JSON.stringify(own());
  return {
    update(changed) {
      if (!changed.has("rollouts") && !changed.has("events")) return;
      const now = JSON.stringify(own());
      if (now !== last || changed.has("events")) { last = now; later(); }
    },
    close() { clearTimeout(timer); clearInterval(ticking); },
  };
}

function wave(group, clusters, open) {
  const loud = clusters.filter((each) => !QUIET.has(each[STATE])).sort((one, other) => ORDER.indexOf(one[STATE]) - ORDER.indexOf(other[STATE]));
  const key = `${group.placement}/${group.title}`;
  const rest = clusters.filter((each) => QUIET.has(each[STATE]));
  return h("article", { class: group.active ? "card active" : "card" },
    h("h3", {}, group.title, h("span", { class: "sub" }, `${group.placement} · ${told(group.counts)}`)),
    bar(group.counts, group.total),
    group.message && h("p", { class: "message" }, group.message),
    loud.length > 0 && h("ul", { class: "tree" }, loud.slice(0, MOST).map(line)),
    loud.length > MOST && folded(`${key}/more`, open, `${count(loud.length - MOST, "clusters")} more that move or failed`,
      () => h("ul", { class: "tree" }, loud.slice(MOST, LONGEST).map(line), more(loud))),
    rest.length > 0 && folded(key, open, `${count(rest.length, "clusters")} ${restTold(rest)}`,
      () => h("ul", { class: "names" }, rest.slice(0, LONGEST).map((each) => h("li", { class: `s-${slug(each[STATE])}`, title: quietly(each, group) }, mark(each[STATE]), each[NAME])), more(rest))));
}

// What is folded is made when somebody unfolds it: most of ten thousand clusters are never looked at.
function folded(key, open, title, make) {
  const element = h("details", { "data-key": key, open: open.has(key) }, h("summary", {}, title), open.has(key) && make());
  element.addEventListener("toggle", () => { if (element.open && element.childElementCount < 2) element.append(make()); });
  return element;
}

const more = (list) => list.length > LONGEST && h("li", { class: "more" }, `${(list.length - LONGEST).toLocaleString("en")} more`);

function restTold(rest) {
  return [...new Set(rest.map((each) => each[STATE]))].join(" or ");
}

function quietly(each, group) {
  const waits = each[STATE] === "waiting" ? group.message : "";
  return [each[STATE], clocked(each[STATE], each[SINCE], each[UNTIL]), each[SAID] || waits].filter(Boolean).join(" ");
}

function line(each) {
  const message = each[SAID];
  // What the cluster's own message says already is not said twice.
  const others = each[OBJECTS].filter(([title, is, words]) => is !== "done" && !(message.includes(title) && message.includes(words))).slice(0, 30);
  return h("li", {}, mark(each[STATE]), h("b", {}, each[NAME]), " ", state(each[STATE]), " ", clock(each[STATE], each[SINCE], each[UNTIL]),
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
    when(each.at), " ", reason(each.type, each.what), each.note && h("p", { class: "message" }, each.note))));
}

function revisions(list) {
  if (!list.length) return h("p", { class: "empty" }, "No revision is stored yet.");
  return h("ul", { class: "plain" }, [...list].reverse().map((each) => h("li", {}, h("b", {}, `revision ${each.number}`), each.present && h("span", { class: "chip" }, "present"),
    h("span", { class: "sub" }, each.completed ? ["complete ", when(each.completed)] : "never complete"),
    h("p", { class: "message" }, Object.entries(each.told).filter((one) => one[1]).map(([key, value]) => `${key}: ${value}`).join(", ")))));
}
