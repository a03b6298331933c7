// Telling a rollout how to go on: what it would do first, then a confirmation.
import { count, h, named, put, state } from "./dom.js";
import { post } from "./store.js";

const VERBS = [
  ["pause", "Pause"], ["resume", "Resume"], ["promote", "Promote"], ["approve", "Approve"], ["retry", "Retry"], ["abort", "Abort"], ["undo", "Undo"],
];
const GRAVE = new Set(["abort", "undo"]);

// Which verbs make sense now; the hub has the last word, and others can be asked for by the command line.
export function possible(each) {
  const counts = each.counts;
  return VERBS.filter(([verb]) => !each.refused?.[verb] && ({
    pause: each.state !== "paused" && !["complete", "finished, not everywhere", "aborted", "no clusters", "disabled"].includes(each.state),
    resume: ["paused", "stopped"].includes(each.state),
    promote: Boolean(counts.soaking),
    approve: each.state === "awaiting approval" || each.state === "held",
    retry: Boolean(counts.failed || counts["timed out"]) || ["aborted", "going back"].includes(each.state),
    abort: !["complete", "complete, pods outdated", "aborted", "no clusters", "disabled"].includes(each.state),
    undo: (each.revisions?.length ?? 0) > 1,
  })[verb]);
}

export function buttons(each, done) {
  return h("div", { class: "verbs", role: "group", "aria-label": "Steer this rollout" },
    possible(each).map(([verb, text]) => h("button", { class: GRAVE.has(verb) ? "grave" : "", "data-verb": verb, onclick: (event) => ask(each, verb, text, event.currentTarget, done) }, text)));
}

function ask(each, verb, text, button, done) {
  const wish = { kind: each.kind, namespace: each.namespace, name: each.name, verb, removal: verb === "approve" && each.state === "held" };
  const body = h("div", { "aria-live": "polite" }, h("p", { class: "sub" }, "Asking the hub what this would do…"));
  const yes = h("button", { class: GRAVE.has(verb) ? "primary grave" : "primary", disabled: true, onclick: act }, text);
  const to = verb === "undo" && h("select", { id: "to", onchange: preview },
    each.revisions.filter((one) => !one.present && one.usable).reverse().map((one) => h("option", { value: one.number },
      `revision ${one.number}${one.completed ? "" : " (was never complete)"}${described(one)}`)));
  const dialog = h("dialog", { "aria-labelledby": "asked" },
    h("h2", { id: "asked" }, `${text} ${each.namespace}/${each.name}?`),
    to && h("p", {}, h("label", { for: "to" }, "Go back to "), to), body,
    h("div", { class: "row end" }, h("button", { onclick: () => dialog.close() }, "Cancel"), yes));
  // The page may have been drawn anew meanwhile, and the verb may mean nothing any more.
  dialog.addEventListener("close", () => { dialog.remove(); (button.isConnected ? button : document.querySelector(`.verbs [data-verb="${verb}"], .verbs button`))?.focus(); });
  document.body.append(dialog);
  dialog.showModal();
  preview();

  async function preview() {
    yes.disabled = true;
    try {
      if (to) wish.toRevision = Number(to.value);
      const found = await post("/api/preview", wish);
      wish.revision = found.revision;
      put(body,
        h("p", {}, "Then it is ", state(found.state), found.message && `: ${found.message}`),
        found.clusters.length > 0 && h("p", {}, h("b", {}, count(found.clusters.length, "clusters")), ` ${found.about}: `, named(found.clusters, 12)),
        h("p", {}, found.starts.length && same(found.starts, found.clusters) ? "All of them would start at once." : found.starts.length ? [`At once ${count(found.starts.length, "clusters")} would start: `, named(found.starts, 12)] : "No cluster starts at once because of this."),
        found.notes.map((note) => h("p", { class: "message" }, note)));
      yes.disabled = false;
      yes.focus();
    } catch (error) { put(body, h("p", { class: "wrong", role: "alert" }, error.message)); }
  }

  async function act() {
    yes.disabled = true;
    try {
      const found = await post("/api/act", wish);
      dialog.close();
      done(found.done);
    } catch (error) { put(body, h("p", { class: "wrong", role: "alert" }, error.message)); }
  }
}

const same = (some, others) => some.length === others.length && some.every((each) => others.includes(each));
const described = (one) => { const told = Object.values(one.told).filter(Boolean).join(", "); return told ? `: ${told}` : ""; };
