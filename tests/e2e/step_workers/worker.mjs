// A worker written from the worker protocol alone (spec/step-engine.md §13), with nothing but Node's standard library.
//
// Usage: node worker.mjs http://127.0.0.1:8080
import http from "node:http";

const base = new URL(process.argv[2]);
const workerId = `node-${process.pid}`;
const BATCH = 64;
const IDLE_MS = 100;

class NonRetryable extends Error {}

const attempts = new Map();

const handlers = {
  "chain-a": async ({ variables }) => ({ trail: [...variables.trail, "a"] }),
  "chain-b": async ({ id, variables }) => {
    const attempt = (attempts.get(id) ?? 0) + 1;
    attempts.set(id, attempt);
    if (attempt === 1) throw new Error("the first try always fails");
    return { trail: [...variables.trail, "b"], attempts: attempt };
  },
  "chain-c": async ({ variables }) => {
    if (variables.doomed) throw new NonRetryable("there is no hope");
    return { trail: [...variables.trail, "c"] };
  },
};

function post(path, body) {
  const content = JSON.stringify(body);
  const headers = { "Content-Type": "application/json", "Content-Length": Buffer.byteLength(content) };
  return new Promise((resolve, reject) => {
    const request = http.request(new URL(path, base), { method: "POST", headers }, (response) => {
      const parts = [];
      response.on("data", (part) => parts.push(part));
      response.on("end", () => resolve({ status: response.statusCode, text: Buffer.concat(parts).toString() }));
    });
    request.on("error", reject);
    request.end(content);
  });
}

async function report(path, body) {
  const { status, text } = await post(path, body);
  if (status < 200 || status > 299) throw new Error(`${path} answered ${status}: ${text}`);
}

async function run(job) {
  const handler = handlers[job.jobType];
  const path = `/v1/jobs/${job.id}`;
  try {
    if (!handler) throw new NonRetryable(`no handler registered for ${job.jobType}`);
    await report(`${path}/complete`, { workerId, variables: await handler(job) });
  } catch (error) {
    const retryable = !(error instanceof NonRetryable);
    await report(`${path}/fail`, { workerId, errorMessage: error.message, retryable });
  }
}

let leaving = false;
for (const signal of ["SIGINT", "SIGTERM"]) process.on(signal, () => (leaving = true));
const pause = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds));

const running = new Set();
while (!leaving) {
  let jobs = [];
  try {
    const { status, text } = await post("/v1/jobs/poll", { workerId, jobTypes: Object.keys(handlers), maxJobs: BATCH });
    if (status !== 200) throw new Error(`poll answered ${status}: ${text}`);
    jobs = JSON.parse(text).jobs ?? [];
  } catch (error) {
    console.error(error.message);
    await pause(500);
  }
  for (const job of jobs) {
    const work = run(job).finally(() => running.delete(work));
    running.add(work);
  }
  if (jobs.length < BATCH) await pause(IDLE_MS);
}
await Promise.all(running);
