// Draws the diagrams of a page: layout in a worker, the result copied by an allow-list, marks put on it by number.
// A diagram that cannot be drawn says so; the table beside it says the same as the picture.

const DEADLINE_MS = 4000;
const SVG = "http://www.w3.org/2000/svg";
const ELEMENTS = new Set(["svg", "g", "path", "polygon", "polyline", "ellipse", "text", "title"]);
const ATTRIBUTES = new Set(["id", "class", "d", "points", "cx", "cy", "rx", "ry", "x", "y", "text-anchor", "transform", "viewBox"]);
const SMALLEST_SCALE = 0.75;
const narrow = window.matchMedia("(max-width: 719px)");

// Layout: one worker, one job at a time. A worker that failed or is late is ended, and never used again.
let worker = null;
let queue = Promise.resolve();
let jobs = 0;

function layOut(host, dot) {
  const turn = queue.then(() => runJob(host, dot));
  queue = turn.catch(() => {});
  return turn;
}

function runJob(host, dot) {
  worker ??= new Worker(host.dataset.worker);
  const job = ++jobs;
  const direction = narrow.matches ? "TB" : "LR";
  return new Promise((resolve, reject) => {
    const end = (reason) => { clearTimeout(timer); worker?.terminate(); worker = null; reject(new Error(reason)); };
    const timer = setTimeout(() => end("late"), DEADLINE_MS);
    worker.onerror = (event) => { event.preventDefault(); end("failed"); };
    worker.onmessage = ({ data }) => {
      if (data.job !== job) return;
      if (data.failed !== undefined) { end("failed"); return; }
      clearTimeout(timer);
      resolve(data.svg);
    };
    worker.postMessage({ job, library: host.dataset.library, dot, direction });
  });
}

// Copying: only what a picture is made of, without colours, which are matters of the style sheet.
function copyPart(source) {
  if (source.namespaceURI !== SVG || !ELEMENTS.has(source.localName)) return null;
  const copy = document.createElementNS(SVG, source.localName);
  for (const { name, value } of source.attributes) if (ATTRIBUTES.has(name)) copy.setAttribute(name, value);
  for (const child of source.childNodes) {
    if (child.nodeType === Node.TEXT_NODE && (source.localName === "text")) copy.append(child.data);
    else if (child.nodeType === Node.ELEMENT_NODE && child.localName !== "title") {
      const part = copyPart(child);
      if (part) copy.append(part);
    }
  }
  return copy;
}

function readSvg(text) {
  const parsed = new DOMParser().parseFromString(text, "image/svg+xml");
  if (parsed.querySelector("parsererror")) throw new Error("failed");
  const svg = copyPart(parsed.documentElement);
  svg?.querySelector(".graph > polygon")?.remove();
  return svg;
}

const isOurs = (href) => href.startsWith("#") || href.startsWith("/console/");

class Diagram {
  constructor(host) {
    this.host = host;
    this.box = host.querySelector(".diagram-box");
    this.note = host.querySelector(".diagram-note");
    this.plan = JSON.parse(host.dataset.diagram);
  }

  async draw() {
    this.host.dataset.state = "drawing";
    for (const attempt of this.plan.attempts) {
      try {
        this.show(readSvg(await layOut(this.host, attempt.dot)), attempt);
        this.host.dataset.state = "drawn";
        this.host.dataset.tier = attempt.tier;
        return;
      } catch { /* the next tier, if there is one */ }
    }
    this.host.dataset.state = "failed";
    this.box.replaceChildren(Object.assign(document.createElement("p"), {
      className: "none", textContent: "This diagram is too tangled to be drawn in time. The table says the same.",
    }));
  }

  show(svg, attempt) {
    this.svg = svg;
    this.nodes = [...svg.querySelectorAll("g.node")].filter((group) => this.plan.nodes[group.id]);
    this.edges = [...svg.querySelectorAll("g.edge")].filter((group) => this.plan.edges[group.id]);
    this.texts = new Map();
    for (const group of [...this.nodes, ...this.edges]) {
      group.dataset.number = group.id;
      group.removeAttribute("id"); // several diagrams may be on a page
      group.prepend(document.createElementNS(SVG, "title"));
    }
    this.nodes.forEach((group) => this.link(group));
    if (attempt.tier === 3) this.nodes.find((group) => group.dataset.number === this.plan.focus)?.classList.add("focus");
    this.order();
    svg.removeAttribute("id");
    this.box.replaceChildren(svg);
    this.fit();
    this.mark();
    this.tell(attempt);
    this.reveal();
  }

  link(group) {
    const { href } = this.plan.nodes[group.dataset.number];
    if (!href || !isOurs(href)) return;
    const link = document.createElementNS(SVG, "a");
    link.setAttribute("href", href);
    link.append(...group.childNodes);
    group.append(link);
  }

  // In reading order: along the layout, then across it.
  order() {
    const [along, across] = narrow.matches ? [1, 0] : [0, 1];
    const place = new Map(this.nodes.map((group) => [group, readPlace(group)]));
    this.nodes.sort((a, b) => place.get(a)[along] - place.get(b)[along] || place.get(a)[across] - place.get(b)[across]);
    for (const group of this.nodes) group.parentNode.append(group);
    this.links = this.nodes.map((group) => group.querySelector("a")).filter(Boolean);
  }

  fit() {
    const [, , width, height] = this.svg.getAttribute("viewBox").split(" ").map(Number);
    const scale = Math.max(SMALLEST_SCALE, Math.min(1, (this.box.clientWidth - 2) / width));
    this.svg.setAttribute("width", Math.ceil(width * scale));
    this.svg.setAttribute("height", Math.ceil(height * scale));
  }

  tell({ tier, leftOut }) {
    const notes = [];
    if (tier === 2) notes.push("Drawn without labels, because of its size: names are in the table.");
    if (tier === 3) notes.push(`What is near one state, and ${leftOut.toLocaleString("en")} more.`);
    this.note.textContent = notes.join(" ");
  }

  // Marks: classes, a second line, and words for those who do not see it.
  mark() {
    const marks = readMarks(this.host.id);
    for (const group of [...this.nodes, ...this.edges]) {
      const number = group.dataset.number;
      const { name } = this.plan.nodes[number] ?? this.plan.edges[number];
      const { classes = [], note = "", words = "" } = marks[number] ?? {};
      const base = (group.dataset.classes ??= group.getAttribute("class"));
      group.setAttribute("class", [base, ...classes].join(" "));
      const said = words ? `${name}: ${words}` : name;
      group.querySelector("title").textContent = said;
      group.querySelector("a")?.setAttribute("aria-label", said);
      this.write(group, note);
    }
    this.current = this.nodes.find((group) => group.classList.contains("current"));
  }

  write(group, note) {
    const texts = [...group.querySelectorAll("text")];
    const text = texts.at(-1);
    if (!text) return;
    if (group.classList.contains("edge")) {
      const label = texts[0];
      if (!this.texts.has(label)) this.texts.set(label, label.textContent);
      texts.slice(1).forEach((each) => each.remove());
      const isShort = note.length <= 2;
      label.textContent = isShort && note ? `${this.texts.get(label)} ${note}` : this.texts.get(label);
      if (note && !isShort) label.after(writeBelow(label, note));
    } else if (this.plan.marked && (texts.length > 1 || group.classList.contains("place"))) {
      text.textContent = note;
      text.classList.add("note");
      if (texts.length === 2) this.centre(texts, Boolean(note));
    }
    if (group.classList.contains("node")) texts.forEach((each) => squeeze(each, group));
  }

  // A node without a second line has its name in the middle.
  centre([name, second], isFull) {
    const top = Number((name.dataset.top ??= name.getAttribute("y")));
    name.setAttribute("y", isFull ? top : (top + Number(second.getAttribute("y"))) / 2);
  }

  reveal() {
    const group = this.current ?? this.nodes.find((each) => each.dataset.number === this.plan.focus);
    if (!group) return;
    const [inner, outer] = [group.getBoundingClientRect(), this.box.getBoundingClientRect()];
    this.box.scrollLeft += inner.left + inner.width / 2 - outer.left - outer.width / 2;
    this.box.scrollTop += inner.top + inner.height / 2 - outer.top - outer.height / 2;
  }

  // Right and left follow the edges, up and down the reading order.
  move(link, key) {
    const number = link.closest("g.node").dataset.number;
    const ends = Object.values(this.plan.edges).map((edge) => edge.ends);
    const beside = {
      ArrowRight: () => ends.find(([source, target]) => source === number && target !== number)?.[1],
      ArrowLeft: () => ends.find(([source, target]) => target === number && source !== number)?.[0],
      ArrowDown: () => this.links[this.links.indexOf(link) + 1]?.closest("g.node").dataset.number,
      ArrowUp: () => this.links[this.links.indexOf(link) - 1]?.closest("g.node").dataset.number,
    }[key]?.();
    const next = this.nodes.find((group) => group.dataset.number === beside)?.querySelector("a");
    next?.focus();
    return Boolean(next);
  }
}

// The layout knows other fonts than the browser: a text that is wider than its node is made narrower.
function squeeze(text, group) {
  text.removeAttribute("textLength");
  const room = (group.querySelector("path, polygon, ellipse")?.getBBox().width ?? 0) - 8;
  if (room <= 0 || !text.textContent || text.getComputedTextLength() <= room) return;
  text.setAttribute("textLength", room);
  text.setAttribute("lengthAdjust", "spacingAndGlyphs");
}

// The layout has no room for what is written on an edge afterwards: a longer note stands below its label.
function writeBelow(label, note) {
  const below = label.cloneNode();
  below.setAttribute("y", Number(label.getAttribute("y")) + 13);
  below.textContent = note;
  return below;
}

function readPlace(group) {
  const numbers = (group.querySelector("text, ellipse, polygon, path")?.outerHTML ?? "").match(/-?\d+(\.\d+)?/g)?.map(Number) ?? [];
  const text = group.querySelector("text");
  if (text) return [Number(text.getAttribute("x")), Number(text.getAttribute("y"))];
  const ellipse = group.querySelector("ellipse");
  if (ellipse) return [Number(ellipse.getAttribute("cx")), Number(ellipse.getAttribute("cy"))];
  return numbers.slice(0, 2);
}

function readMarks(id) {
  const source = document.querySelector(`[data-marks-for="${CSS.escape(id)}"]`);
  try { return source ? JSON.parse(source.dataset.marks) : {}; } catch { return {}; }
}

// A picture as a file, with the colours that it has just now.
const STYLES = ["fill", "stroke", "stroke-width", "stroke-dasharray", "font-family", "font-size", "font-weight"];

function writeFile(svg) {
  const copy = svg.cloneNode(true);
  const shown = svg.querySelectorAll("*");
  copy.querySelectorAll("*").forEach((part, index) => {
    const style = getComputedStyle(shown[index]);
    for (const name of STYLES) if (style.getPropertyValue(name)) part.setAttribute(name, style.getPropertyValue(name));
    if (style.display === "none") part.setAttribute("display", "none");
  });
  copy.querySelectorAll("a").forEach((link) => link.replaceWith(...link.childNodes));
  copy.setAttribute("xmlns", SVG);
  return new Blob([new XMLSerializer().serializeToString(copy)], { type: "image/svg+xml" });
}

function save(blob, name) {
  const link = Object.assign(document.createElement("a"), { href: URL.createObjectURL(blob), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

const diagrams = new Map();

const seen = new IntersectionObserver((entries) => {
  for (const { isIntersecting, target } of entries) {
    if (!isIntersecting) continue;
    seen.unobserve(target);
    diagrams.get(target).draw();
  }
}, { rootMargin: "200px" });

function prepare() {
  for (const host of document.querySelectorAll("[data-diagram]")) {
    if (diagrams.has(host)) continue;
    diagrams.set(host, new Diagram(host));
    seen.observe(host);
  }
}

new MutationObserver((changes) => {
  prepare();
  const isMarked = (node) => node.nodeType === Node.ELEMENT_NODE && (node.matches("[data-marks]") || node.querySelector("[data-marks]"));
  if (changes.some(({ type, addedNodes }) => type === "attributes" || [...addedNodes].some(isMarked))) {
    for (const diagram of diagrams.values()) if (diagram.svg) diagram.mark();
  }
}).observe(document.querySelector("main"), { subtree: true, childList: true, attributes: true, attributeFilter: ["data-marks"] });

document.addEventListener("keydown", (event) => {
  const link = event.target.closest?.(".diagram g.node a");
  const diagram = link && diagrams.get(link.closest("[data-diagram]"));
  if (diagram?.move(link, event.key)) event.preventDefault();
});

document.addEventListener("click", (event) => {
  const button = event.target.closest?.("[data-save]");
  const host = button && document.getElementById(button.dataset.of);
  const diagram = host && diagrams.get(host);
  if (!diagram) return;
  const name = button.dataset.save;
  const text = document.getElementById(`${host.id}-json`);
  if (name.endsWith(".json")) save(new Blob([text.textContent], { type: "application/json" }), name);
  else if (name.endsWith(".dot")) save(new Blob([diagram.plan.attempts[0].dot], { type: "text/vnd.graphviz" }), name);
  else if (diagram.svg) save(writeFile(diagram.svg), name);
});

narrow.addEventListener("change", () => { for (const diagram of diagrams.values()) if (diagram.svg) diagram.draw(); });
requestAnimationFrame(() => setTimeout(prepare));
