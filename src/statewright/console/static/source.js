// Source text beside a diagram: what the pointer or the focus is on is marked in the text, in both directions.

const source = document.querySelector(".source");
const find = (event) => event.target.closest?.('.diagram a[href^="#"], tr[data-node], .source li[data-of]');

function nameNode(element) {
  if (element.dataset?.node) return [element.dataset.node];
  if (element.dataset?.of) return element.dataset.of.trim().split(" ");
  return [decodeURIComponent(element.getAttribute("href").slice(1))];
}

function mark(event) {
  const element = find(event);
  for (const old of document.querySelectorAll(".pointed")) old.classList.remove("pointed");
  if (!element) return;
  for (const name of nameNode(element)) {
    const lines = [...source.querySelectorAll("li[data-of]")].filter((line) => line.dataset.of.includes(` ${name} `));
    for (const line of lines) line.classList.add("pointed");
    const inSight = source.scrollHeight <= source.clientHeight || element.closest(".source");
    if (lines.length && !inSight) source.scrollTop = lines[0].offsetTop - source.offsetTop - source.clientHeight / 3;
    for (const link of document.querySelectorAll(`.diagram a[href="#${CSS.escape(name)}"]`)) link.classList.add("pointed");
  }
}

if (source) for (const kind of ["pointerover", "focusin"]) document.addEventListener(kind, mark);
