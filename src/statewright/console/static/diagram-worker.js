// Lays out one DOT text at a time. It runs in a worker so that a page stays quick, and so that it can be ended.
let layout;

self.onmessage = async ({ data: { job, library, dot, direction } }) => {
  try {
    if (!layout) {
      importScripts(library);
      layout = await self.Viz.instance();
    }
    const svg = layout.renderString(dot, { format: "svg", graphAttributes: { rankdir: direction } });
    self.postMessage({ job, svg });
  } catch (error) {
    self.postMessage({ job, failed: String(error?.message ?? error) });
  }
};
