// The page: who is signed in, which view is open, light or dark.
import { h, put } from "./dom.js";
import { begin, end, get, hear, post, store } from "./store.js";
import { cliques } from "./cliques.js";
import { events } from "./events.js";
import { fleet } from "./fleet.js";
import { login } from "./login.js";
import { placement, placements } from "./placements.js";
import { policies } from "./policies.js";
import { rollout } from "./rollout.js";
import { rollouts } from "./rollouts.js";
import { workloads } from "./workloads.js";

const VIEWS = [
  ["fleet", "Fleet", fleet], ["rollouts", "Rollouts", rollouts], ["placements", "Placements", placements],
  ["policies", "Policies", policies], ["workloads", "Workloads", workloads], ["cliques", "Pod cliques", cliques],
  ["events", "Events", events],
];
const DEEPER = { rollouts: rollout, placements: placement };
const main = document.getElementById("main");
const nav = document.getElementById("nav");
const person = document.getElementById("person");
const notice = document.getElementById("notice");
let open = null;

function route() {
  const [name, ...rest] = location.hash.replace(/^#\/?/, "").split("/").map(decodeURIComponent);
  const view = VIEWS.find((each) => each[0] === name) ?? VIEWS[0];
  return { name: view[0], title: view[1], show: rest.length && DEEPER[view[0]] ? DEEPER[view[0]] : view[2], rest };
}

function show() {
  open?.close?.();
  open = null;
  nav.hidden = person.hidden = !store.session;
  if (!store.session) {
    document.title = "Sign in · Echelon";
    open = login(put(main), started);
    return;
  }
  const { name, title, show: view, rest } = route();
  document.title = `${rest.length ? `${rest.at(-1)} · ` : ""}${title} · Echelon`;
  put(nav, VIEWS.map(([each, text]) => h("a", { href: `#/${each}`, "aria-current": each === name && "page" }, text)));
  nav.querySelector("[aria-current]")?.scrollIntoView({ block: "nearest", inline: "center" });
  put(main);
  open = view(main, ...rest);
}

function notices(changed) {
  if (changed.has("session")) { show(); return; }
  const told = [];
  if (store.session && !store.live && store.received) told.push("The connection is lost; what you see may be old.");
  else if (store.session && !store.ready) told.push("Reading from the hub…");
  put(notice, told);
  open?.update?.(changed);
}

function showPerson() {
  const { user, groups } = store.session;
  put(person,
    h("button", { class: "quiet", onclick: theme, title: "Light or dark", "aria-label": "Switch between light and dark" }, "◐"),
    h("span", { class: "user", title: groups.join(", ") }, user),
    h("button", { class: "quiet", onclick: async () => { await post("/api/logout", {}).catch(() => {}); end(); } }, "Sign out"));
}

function theme() {
  const dark = matchMedia("(prefers-color-scheme: dark)").matches;
  const now = document.documentElement.dataset.theme ?? (dark ? "dark" : "light");
  const next = now === "dark" ? "light" : "dark";
  document.documentElement.dataset.theme = next;
  localStorage.setItem("theme", next);
  open?.update?.(new Set(["theme"]));
}

function started(session) {
  begin(session);
  showPerson();
  show();
  main.focus({ preventScroll: true });
}

const kept = localStorage.getItem("theme");
if (kept === "light" || kept === "dark") document.documentElement.dataset.theme = kept;
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => open?.update?.(new Set(["theme"])));
addEventListener("hashchange", () => {
  if (location.hash === "#main") return;
  show();
  scrollTo(0, 0);
  main.focus({ preventScroll: true });
});
hear(notices);

// A link of one use has its code behind the #, which browsers tell nobody.
const code = /^#code=([\w-]+)$/.exec(location.hash)?.[1];
if (code) history.replaceState(null, "", location.pathname);
try {
  started(code ? await post("/api/login", { code }) : await get("/api/session"));
} catch (error) {
  show();
  if (code) put(notice, error.message);
}
