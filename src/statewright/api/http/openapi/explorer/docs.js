// Starts the explorer in place of the page that the server has rendered, which stays where this cannot run.
"use strict";

const contextPath = document.currentScript.dataset.contextPath;

// The filter of the explorer looks at the names of groups only; this one looks at everything an operation says.
function findOperations(groups, phrase) {
  const words = phrase.toLowerCase().split(/\s+/).filter(Boolean);
  const isFound = (group, operation) => {
    const described = operation.get("operation");
    const text = [
      group, operation.get("method"), contextPath + operation.get("path"), operation.get("id"),
      described.get("summary"), described.get("description"), described.get("operationId"),
    ].join(" ").toLowerCase();
    return words.every((word) => text.includes(word));
  };
  return groups
    .map((group, name) => group.set("operations", group.get("operations").filter((each) => isFound(name, each))))
    .filter((group) => group.get("operations").size > 0);
}

async function start() {
  const answer = await fetch("/openapi.json");
  const spec = await answer.json();
  spec.servers = [{ url: contextPath || "/" }]; // whatever proxies stand between, the page came from the right address
  SwaggerUIBundle({
    spec,
    dom_id: "#explorer",
    layout: "BaseLayout",
    presets: [SwaggerUIBundle.presets.apis],
    plugins: [() => ({ fn: { opsFilter: findOperations } })],
    deepLinking: true,
    displayRequestDuration: true,
    docExpansion: "list",
    defaultModelsExpandDepth: 0,
    filter: true,
    tryItOutEnabled: true,
    validatorUrl: null,
    onComplete: () => document.getElementById("built-in").remove(),
  });
}

start();
