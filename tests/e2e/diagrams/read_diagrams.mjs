// Reads diagrams as JSON from the standard input with Mermaid; of each writes a line with its nodes and edges.
import { readFileSync } from "node:fs";
import { JSDOM } from "jsdom";

const { window } = new JSDOM("<!DOCTYPE html><body></body>");
globalThis.window = window;
globalThis.document = window.document;
const { default: mermaid } = await import("mermaid");
mermaid.initialize({ startOnLoad: false, maxTextSize: 10_000_000, maxEdges: 100_000 });

for (const text of JSON.parse(readFileSync(0, "utf8"))) {
  try {
    const { nodes, edges } = (await mermaid.mermaidAPI.getDiagramFromText(text)).db.getData();
    console.log(JSON.stringify({
      nodes: nodes.map((node) => ({ id: node.id, label: [node.label].flat().join(""), classes: node.cssClasses ?? "" })),
      edges: edges.map((edge) => ({ start: edge.start, end: edge.end, label: edge.label ?? "" })),
    }));
  } catch (error) {
    console.log(JSON.stringify({ error: String(error) }));
  }
}
