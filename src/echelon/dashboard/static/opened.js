// One rollout to the last cluster: everything at first, then the clusters that have changed.
import { get } from "./store.js";

// Columns of a row of a cluster.
export const NAME = 0, STATE = 1, SINCE = 2, UNTIL = 3, SAID = 4, OBJECTS = 5;

export class OpenRollout {
  constructor(kind, namespace, name) {
    Object.assign(this, { kind, namespace, name, version: "", waves: [] });
  }

  async read() {
    const { kind, namespace, name, version: after } = this;
    const { clusters, ...found } = await get("/api/rollout", { kind, namespace, name, after });
    if (clusters.rows) this.waves = clusters.rows;
    else if (after === this.version) for (const [wave, place, row] of clusters.changed) this.waves[wave][place] = row;
    else return found; // another answer was here first
    this.version = clusters.version;
    return found;
  }
}
