// Times of the viewer's zone, copying, keys, theme, menu, what is shown when the service does not answer.
// Everything else is HTML; a page without this script reads and submits all the same.

const root = document.documentElement;
root.classList.add("scripted");

const DAY_MS = 86_400_000;
const UNITS = [["h", 3_600_000], ["min", 60_000], ["s", 1000]];
const pad = (number) => String(number).padStart(2, "0");

function writeTime(element) {
  const at = new Date(element.dateTime);
  if (Number.isNaN(at.getTime()) || localStorage.getItem("statewright-utc") === "1") return;
  const distance = at.getTime() - Date.now();
  if (Math.abs(distance) < DAY_MS) {
    const span = Math.abs(distance);
    const [unit, size] = UNITS.find(([, each]) => span >= each) ?? ["s", 1000];
    const words = `${Math.trunc(span / size)} ${unit}`;
    element.textContent = span < 1000 ? "now" : distance < 0 ? `${words} ago` : `in ${words}`;
    return;
  }
  const day = `${at.getFullYear()}-${pad(at.getMonth() + 1)}-${pad(at.getDate())}`;
  element.textContent = `${day} ${pad(at.getHours())}:${pad(at.getMinutes())}`;
}

function prepare(scope) {
  scope.querySelectorAll("time[datetime]").forEach(writeTime);
  scope.querySelectorAll("[data-copy][hidden]").forEach((button) => { button.hidden = false; });
}

setInterval(() => { if (!document.hidden) document.querySelectorAll("time[data-relative]").forEach(writeTime); }, 20_000);

// Copying
document.addEventListener("click", async (event) => {
  const button = event.target.closest?.("[data-copy]");
  if (!button) return;
  const text = button.dataset.copy || button.parentElement.querySelector("code")?.textContent || "";
  await navigator.clipboard.writeText(text);
  const before = button.textContent;
  button.textContent = "Copied";
  setTimeout(() => { button.textContent = before; }, 1200);
});

// Theme
const theme = document.getElementById("theme");
if (theme) {
  theme.closest("label").hidden = false;
  theme.addEventListener("change", () => {
    root.dataset.theme = theme.value;
    document.cookie = `statewright-theme=${theme.value}; Path=/console; Max-Age=31536000; SameSite=Lax`;
  });
}

// Menu of narrow screens
const menu = document.querySelector(".menu-button");
const side = document.getElementById("navigation");
const narrow = window.matchMedia("(max-width: 719px)");
function fitMenu() { if (menu) menu.hidden = !narrow.matches; }
narrow.addEventListener("change", fitMenu);
fitMenu();
menu?.addEventListener("click", () => {
  const open = side.classList.toggle("open");
  menu.setAttribute("aria-expanded", String(open));
});

// Keys
const keysOn = document.getElementById("keys-on");
const KEYS = "statewright-keys";
if (keysOn) {
  keysOn.checked = localStorage.getItem(KEYS) !== "off";
  keysOn.addEventListener("change", () => localStorage.setItem(KEYS, keysOn.checked ? "on" : "off"));
}
let prefix = "";
let prefixEnd = 0;

function moveRow(step) {
  const links = [...document.querySelectorAll("main table.rows tbody tr")].map((row) => row.querySelector("a")).filter(Boolean);
  if (links.length === 0) return;
  const row = document.activeElement?.closest?.("tr");
  const at = links.findIndex((link) => link.closest("tr") === row);
  links[Math.min(Math.max(at + step, 0), links.length - 1)].focus();
}

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || localStorage.getItem(KEYS) === "off") return;
  if (event.target.closest?.("input, textarea, select, [contenteditable], dialog")) return;
  if (prefix === "g" && Date.now() < prefixEnd) {
    prefix = "";
    const link = document.querySelector(`nav a[data-key="${CSS.escape(event.key)}"]`);
    if (link) { event.preventDefault(); link.click(); }
    return;
  }
  if (event.key === "g") { prefix = "g"; prefixEnd = Date.now() + 1500; return; }
  const acts = {
    "/": () => document.getElementById("find")?.focus(),
    "?": () => document.getElementById("keys")?.showModal(),
    j: () => moveRow(1),
    k: () => moveRow(-1),
  };
  const act = acts[event.key];
  if (act) { event.preventDefault(); act(); }
});

// What is asked before an action stands in a dialog of the page; without a script it is a page of its own.
const confirmation = document.getElementById("confirmation");

async function ask(address, init) {
  const answer = await fetch(address, init);
  const content = new DOMParser().parseFromString(await answer.text(), "text/html").querySelector(init ? ".confirm, .problem" : ".confirm");
  if (!content) { if (init) location.reload(); else location.assign(address); return; }
  confirmation.replaceChildren(document.adoptNode(content));
  prepare(confirmation);
  confirmation.showModal();
}

document.addEventListener("submit", (event) => {
  const form = event.target;
  const call = event.submitter?.getAttribute("formaction");
  if (confirmation && call?.startsWith("/console/call/")) {
    event.preventDefault();
    ask(call, { method: "POST", body: new URLSearchParams(new FormData(form, event.submitter)) });
    return;
  }
  if (!confirmation || !form.matches("form[data-dialog]")) return;
  event.preventDefault();
  const address = `${form.getAttribute("action")}?${new URLSearchParams(new FormData(form, event.submitter))}`;
  ask(address).catch(() => location.assign(address));
});
confirmation?.addEventListener("click", (event) => {
  if (event.target.closest("a.button")) { event.preventDefault(); confirmation.close(); }
});

// A form that was sent is not sent again by a second click.
document.addEventListener("submit", (event) => {
  const form = event.target;
  if (event.defaultPrevented || form.getAttribute("method") !== "post") return;
  if (form.dataset.sent) { event.preventDefault(); return; }
  form.dataset.sent = "1";
});
window.addEventListener("pageshow", () => document.querySelectorAll("form[data-sent]").forEach((form) => delete form.dataset.sent));

// A file is read into the text area that its input names.
document.addEventListener("change", async (event) => {
  const target = event.target.dataset?.fills;
  const file = event.target.files?.[0];
  if (target && file) document.getElementById(target).value = await file.text();
});

// Parts that ask for themselves again: not while the page is hidden or paused, nor while a form in them is being filled
// in; less often after an answer that says to wait; and what was there stays when the service does not answer.
const PAUSED = "statewright-paused";
const toggle = document.getElementById("live-toggle");
const stale = document.getElementById("stale");
const live = document.getElementById("live");
let quietUntil = 0;
let failures = 0;
const missed = new Set();
let lastGood = new Date();

const isPaused = () => localStorage.getItem(PAUSED) === "1";
const clock = (at) => `${pad(at.getHours())}:${pad(at.getMinutes())}:${pad(at.getSeconds())}`;

function isBeingFilledIn(part) {
  return [...part.querySelectorAll("input, textarea, select")].some((field) => {
    if (field.type === "hidden" || field.type === "submit") return false;
    if (field.type === "checkbox" || field.type === "radio") return field.checked !== field.defaultChecked;
    if (field.tagName === "SELECT") return [...field.options].some((option) => option.selected !== option.defaultSelected);
    return field.value !== field.defaultValue;
  });
}

// Without a stream the page asks by itself: where there are too many streams, after a 429, and while one is broken.
const POLL_MS = 10_000;
const RECONNECT_MS = 60_000;
const topics = live ? new URLSearchParams(live.dataset.liveUrl.split("?")[1]).getAll("topic").map((topic) => topic.split("@")[0]) : [];
let polling = 0;
let isStarted = false;

function poll() {
  polling ||= setInterval(() => topics.forEach((topic) => window.htmx.trigger(live, topic)), POLL_MS);
}

function disconnect() {
  clearInterval(polling);
  polling = 0;
  live?.replaceChildren();
}

function noteRefusedStream() {
  poll();
  setTimeout(() => { live.replaceChildren(); connect(); }, RECONNECT_MS * (1 + Math.random()));
}

document.addEventListener("htmx:sse:error", poll);
document.addEventListener("htmx:sse:after:connection", () => { clearInterval(polling); polling = 0; });
document.addEventListener("visibilitychange", () => connect());

function connect() {
  if (!live || !isStarted || isPaused() || document.hidden || live.firstChild) return;
  const source = document.createElement("div");
  source.setAttribute("hx-sse:connect", live.dataset.liveUrl);
  source.setAttribute("hx-swap", "none");
  live.replaceChildren(source);
  window.htmx.process(source);
}

if (toggle && (live || document.querySelector("[data-live]"))) {
  toggle.hidden = false;
  const show = () => {
    toggle.textContent = isPaused() ? "Paused" : "Live";
    toggle.setAttribute("aria-pressed", String(!isPaused()));
  };
  toggle.addEventListener("click", () => {
    localStorage.setItem(PAUSED, isPaused() ? "0" : "1");
    show();
    if (isPaused()) disconnect();
    else connect();
  });
  show();
}
// htmx starts by a timer of its own, set before this one. What is in the page by then it takes up once more, and a second
// stream would take one of the six connections that a browser has for all tabs.
window.addEventListener("load", () => setTimeout(() => { isStarted = true; connect(); }));

document.addEventListener("htmx:before:request", (event) => {
  const part = event.target;
  const again = part.matches?.("[data-live], [data-loaded]");
  if (again && (isPaused() || document.hidden || Date.now() < quietUntil || isBeingFilledIn(part))) event.preventDefault();
  if (again && document.hidden) missed.add(part);
});

// A hint that came while the page was hidden is not lost: what it was about is asked for when the page is seen again.
document.addEventListener("visibilitychange", () => {
  if (document.hidden) return;
  for (const part of missed) if (part.isConnected) window.htmx.trigger(part, "again");
  missed.clear();
});

function noteFailure(part, status) {
  failures += 1;
  quietUntil = Date.now() + (status === 429 ? POLL_MS : Math.min(60_000, 2000 * 2 ** failures));
  part.classList?.add("stale");
  if (part.matches?.("[hx-get]:not([data-live])")) setTimeout(() => window.htmx.trigger(part, "again"), quietUntil - Date.now());
  if (stale) { stale.hidden = false; stale.textContent = `${status === 429 ? "It was asked too often" : "The service does not answer"}; last good at ${clock(lastGood)}`; }
}

document.addEventListener("htmx:before:response", (event) => {
  const status = event.detail.ctx.response.status;
  if (live?.contains(event.detail.ctx.sourceElement)) { if (status >= 400) noteRefusedStream(); return; }
  if (status === 429 || status === 503 || status === 502 || status === 504) { noteFailure(event.target, status); return; }
  if (event.target.matches?.('[hx-trigger*="every"]')) event.target.dataset.loaded = ""; // from now on it only asks again
  failures = 0;
  quietUntil = 0;
  lastGood = new Date();
  event.target.classList?.remove("stale");
  if (stale && !document.querySelector(".stale")) { stale.hidden = true; stale.textContent = ""; }
});
document.addEventListener("htmx:error", (event) => {
  if (live?.contains(event.target)) noteRefusedStream();
  if (event.target.matches?.("[hx-get]")) noteFailure(event.target);
});
document.addEventListener("htmx:after:swap", (event) => prepare(event.target.isConnected ? event.target : document));

prepare(document);
export { prepare };
