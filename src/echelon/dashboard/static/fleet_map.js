// Draws cells on one canvas: ten thousand are as quick as ten. With arrow keys every cell can be reached, and is read out.

const TITLE = 22, GAP = 14;

export class FleetMap {
  constructor(canvas, told, opened) {
    Object.assign(this, { canvas, told, opened, groups: [], cells: [], at: -1, colours: new Map() });
    canvas.tabIndex = 0;
    canvas.setAttribute("role", "application");
    canvas.setAttribute("aria-label", "Map of clusters. Arrow keys move between clusters, Enter opens one.");
    canvas.addEventListener("mousemove", (event) => this.pointed(event));
    canvas.addEventListener("mouseleave", () => { this.canvas.title = ""; this.over = -1; this.paint(); });
    canvas.addEventListener("click", (event) => { const index = this.find(event); if (index >= 0) { this.at = index; this.paint(); opened(this.cells[index].name); } });
    canvas.addEventListener("keydown", (event) => this.keyed(event));
    canvas.addEventListener("focus", () => this.paint());
    canvas.addEventListener("blur", () => this.paint());
    this.observer = new ResizeObserver(() => this.layout());
    this.observer.observe(canvas.parentElement ?? canvas);
    this.over = -1;
  }

  show(groups) {
    this.groups = groups;
    if (this.canvas.parentElement) this.observer.observe(this.canvas.parentElement);
    this.layout();
  }

  recolour() { this.colours.clear(); this.paint(); }

  close() { this.observer.disconnect(); cancelAnimationFrame(this.frame); }

  layout() {
    const width = (this.canvas.parentElement?.clientWidth ?? 0) - 32; // the padding of the map
    if (width <= 0) return;
    const total = this.groups.reduce((sum, [, members]) => sum + members.length, 0);
    this.size = total > 4000 ? 9 : total > 1200 ? 12 : total > 200 ? 16 : 22;
    const step = this.size + (this.size > 10 ? 3 : 2), across = Math.max(1, Math.floor(width / step));
    this.step = step; this.across = across;
    this.cells = []; this.titles = [];
    let y = 0;
    for (const [title, members] of this.groups) {
      this.titles.push([title, members.length, y]);
      y += TITLE;
      members.forEach((cell, index) => this.cells.push({ ...cell, group: title, x: (index % across) * step, y: y + Math.floor(index / across) * step }));
      y += Math.ceil(members.length / across) * step + GAP;
    }
    const scale = devicePixelRatio || 1;
    this.width = width; this.height = Math.max(y, 40);
    this.canvas.width = Math.round(width * scale);
    this.canvas.height = Math.round(this.height * scale);
    this.canvas.style.width = `${width}px`;
    this.canvas.style.height = `${this.height}px`;
    this.at = Math.min(this.at, this.cells.length - 1);
    this.canvas.dataset.cells = String(this.cells.length);
    this.paint();
  }

  paint() {
    cancelAnimationFrame(this.frame);
    this.frame = requestAnimationFrame(() => this.draw());
  }

  colour(name) {
    if (!this.colours.has(name)) this.colours.set(name, getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim() || "#888");
    return this.colours.get(name);
  }

  draw() {
    const context = this.canvas.getContext("2d"), scale = devicePixelRatio || 1;
    context.setTransform(scale, 0, 0, scale, 0, 0);
    context.clearRect(0, 0, this.width, this.height);
    context.textBaseline = "middle";
    for (const [title, members, y] of this.titles ?? []) {
      context.font = "600 13px system-ui, sans-serif";
      context.fillStyle = this.colour("ink");
      context.fillText(title, 0, y + 9, this.width - 60);
      const wide = Math.min(context.measureText(title).width, this.width - 60);
      context.font = "13px system-ui, sans-serif";
      context.fillStyle = this.colour("faint");
      context.fillText(members.toLocaleString("en"), wide + 8, y + 9);
    }
    const byColour = new Map();
    for (const cell of this.cells) {
      if (!byColour.has(cell.colour)) byColour.set(cell.colour, []);
      byColour.get(cell.colour).push(cell);
    }
    for (const [name, cells] of byColour) {
      context.fillStyle = this.colour(`s-${name}`);
      context.beginPath();
      for (const cell of cells) context.rect(cell.x, cell.y, this.size, this.size);
      context.fill();
      if (name === "failed" || name === "timed-out") this.cross(context, cells);
    }
    context.strokeStyle = this.colour("ink");
    for (const [index, wide] of [[this.over, 1], [document.activeElement === this.canvas ? this.at : -1, 2]]) {
      const cell = this.cells[index];
      if (!cell) continue;
      context.lineWidth = wide;
      context.strokeRect(cell.x - wide / 2, cell.y - wide / 2, this.size + wide, this.size + wide);
    }
  }

  // Colour alone does not tell everybody who failed.
  cross(context, cells) {
    const inset = this.size / 4;
    context.strokeStyle = this.colour("paper");
    context.lineWidth = 1.5;
    context.beginPath();
    for (const { x, y } of cells) {
      context.moveTo(x + inset, y + inset); context.lineTo(x + this.size - inset, y + this.size - inset);
      context.moveTo(x + this.size - inset, y + inset); context.lineTo(x + inset, y + this.size - inset);
    }
    context.stroke();
  }

  find(event) {
    const box = this.canvas.getBoundingClientRect(), x = event.clientX - box.left, y = event.clientY - box.top;
    return this.cells.findIndex((cell) => x >= cell.x && x < cell.x + this.step && y >= cell.y && y < cell.y + this.step);
  }

  pointed(event) {
    const index = this.find(event);
    if (index === this.over) return;
    this.over = index;
    this.canvas.title = index < 0 ? "" : this.words(index);
    this.canvas.style.cursor = index < 0 ? "default" : "pointer";
    this.paint();
  }

  words(index) {
    const cell = this.cells[index];
    return `${cell.name}: ${cell.text}${cell.marked ? ", tainted" : ""} (${cell.group})`;
  }

  keyed(event) {
    const steps = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: this.across, ArrowUp: -this.across };
    if (event.key === "Enter" || event.key === " ") { if (this.cells[this.at]) this.opened(this.cells[this.at].name); } else if (event.key === "Home") this.at = 0;
    else if (event.key === "End") this.at = this.cells.length - 1;
    else if (event.key in steps) this.at = Math.max(0, Math.min(this.cells.length - 1, Math.max(this.at, 0) + (this.at < 0 ? 0 : steps[event.key])));
    else return;
    event.preventDefault();
    const cell = this.cells[this.at];
    if (!cell) return;
    this.told.textContent = this.words(this.at);
    const top = this.canvas.getBoundingClientRect().top + cell.y;
    if (top < 60 || top > innerHeight - 40) scrollBy(0, top - innerHeight / 2);
    this.paint();
  }
}
