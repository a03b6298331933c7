// Pod clique sets: their pods and the gangs that start together or not at all.
import { bar, h, put, renew, state, table, told } from "./dom.js";
import { address } from "./rollouts.js";
import { store } from "./store.js";

export function cliques(root) {
  const body = h("div", {});
  put(root, h("div", { class: "head" }, h("h1", {}, "Pod clique sets")), body);
  function draw() {
    const found = [...store.rollouts.values()].filter((each) => each.kind === "podcliqueset");
    renew(body, found.length ? found.slice(0, 200).map(card) : h("p", { class: "empty" }, "There are no pod clique sets that you may see on this hub. Those on members are shown as objects of what brings them there."));
  }
  draw();
  return { update: (changed) => { if (["gangs", "rollouts", "ready"].some((each) => changed.has(each))) draw(); } };
}

function card(each) {
  const own = [...store.gangs.values()].filter((gang) => gang.namespace === each.namespace && gang.owner === each.name);
  return h("section", { class: "card" },
    h("h2", {}, h("a", { href: address(each) }, each.name), h("span", { class: "sub" }, each.namespace), state(each.state)),
    each.message && h("p", { class: "message" }, each.message),
    bar(each.counts, each.total), h("p", { class: "sub" }, `${each.total} pods: ${told(each.counts)}`),
    table(`Gangs of ${each.name}`, ["Gang", "Phase", "Groups of pods that start together"], own.slice(0, 200).map((gang) => h("tr", {},
      h("td", { class: "name" }, gang.name),
      h("td", {}, h("span", { class: `state s-${gang.phase === "Running" ? "done" : gang.phase === "Starting" ? "in-flight" : "waiting"}` }, gang.phase || "unknown")),
      h("td", { class: "text" }, gang.groups.map(([name, pods, least]) => `${name} ${pods} (at least ${least})`).join(", ")))),
      "No gangs, or you may not see them."));
}
