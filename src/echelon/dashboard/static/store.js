// Everything that the hub shows the signed-in person, and who hears of its changes.

const TABLES = ["clusters", "rollouts", "placements", "decisions", "policies", "workloads", "gangs", "events"];

export const store = {
  session: null, ready: false, live: false, unseen: {}, received: 0,
  ...Object.fromEntries(TABLES.map((each) => [each, new Map()])),
};
const hearers = new Set();
let source = null;

export class Refused extends Error {}

export function hear(hearer) {
  hearers.add(hearer);
  return () => hearers.delete(hearer);
}

function tell(changed) {
  for (const each of hearers) each(changed);
}

async function answered(response) {
  const body = await response.json().catch(() => ({}));
  if (response.status === 401 && store.session) end();
  if (!response.ok) throw new Refused(body.error || `the server answered ${response.status}`);
  return body;
}

export async function get(path, query) {
  const text = new URLSearchParams(query ?? {}).toString();
  return answered(await fetch(text ? `${path}?${text}` : path, { credentials: "same-origin", cache: "no-store" }));
}

export async function post(path, body) {
  const headers = { "Content-Type": "application/json" };
  if (store.session) headers["X-Echelon-Token"] = store.session.csrf;
  return answered(await fetch(path, { method: "POST", headers, body: JSON.stringify(body), credentials: "same-origin" }));
}

export function begin(session) {
  store.session = session;
  source = new EventSource("/api/feed");
  source.onopen = () => { store.live = true; tell(new Set(["live"])); };
  source.onmessage = (event) => take(JSON.parse(event.data));
  source.addEventListener("over", end);
  source.onerror = async () => {
    store.live = false;
    tell(new Set(["live"]));
    if (source && source.readyState === EventSource.CLOSED) {
      source = null;
      try { begin(await get("/api/session")); } catch { end(); }
    }
  };
}

export function end() {
  source?.close();
  source = null;
  store.session = null;
  for (const each of TABLES) store[each].clear();
  tell(new Set(["session"]));
}

function take(message) {
  const changed = new Set();
  for (const name of TABLES) {
    if (message.full) { store[name].clear(); changed.add(name); }
    const change = message[name];
    if (!change) continue;
    changed.add(name);
    for (const key of change.gone) store[name].delete(key);
    for (const [key, row] of Object.entries(change.set)) store[name].set(key, row);
  }
  if (message.unseen) { store.unseen = message.unseen; changed.add("unseen"); }
  if (store.ready !== message.ready) { store.ready = message.ready; changed.add("ready"); }
  store.received = message.v;
  document.documentElement.dataset.version = String(message.v);
  tell(changed);
}
