// A calculation member on @grpc/grpc-js: joins, answers what it is asked, joins again when the server has gone.
//
// Usage: node member.mjs host:port directory-of-protos   (NODE_PATH: where @grpc/grpc-js and @grpc/proto-loader are)
import { createRequire } from "node:module";
import { join } from "node:path";

const require = createRequire(join(process.env.NODE_PATH, "x.js"));
const grpc = require("@grpc/grpc-js");
const loader = require("@grpc/proto-loader");

const [address, protos] = process.argv.slice(2);
const definition = loader.loadSync("cyoda-cloud-api.proto", { includeDirs: [protos], keepCase: true, oneofs: true });
const { CloudEventsService } = grpc.loadPackageDefinition(definition).org.cyoda.cloud.api.grpc;
const client = new CloudEventsService(address, grpc.credentials.createInsecure(), {
  "grpc.keepalive_time_ms": 1000,
  "grpc.keepalive_timeout_ms": 5000,
  "grpc.keepalive_permit_without_calls": 1,
  "grpc.initial_reconnect_backoff_ms": 100,
  "grpc.max_reconnect_backoff_ms": 200,
});
const metadata = new grpc.Metadata();
metadata.set("authorization", "Bearer acme");

const say = (...words) => console.log(words.join(" "));
const nameOf = (code) => Object.keys(grpc.status).find((name) => grpc.status[name] === code);
const event = (type, payload) => ({ id: "c", source: "js", spec_version: "1.0", type, text_data: JSON.stringify(payload) });

function answer(stream, request) {
  const { requestId, entityId, payload } = request;
  stream.write(event("EntityProcessorCalculationResponse", { id: "r", requestId, entityId, payload, success: true }));
}

function serve() {
  const stream = client.startStreaming(metadata);
  stream.on("data", ({ type, text_data }) => {
    const payload = JSON.parse(text_data);
    if (type === "CalculationMemberGreetEvent") say("joined");
    if (type === "EntityProcessorCalculationRequest") answer(stream, payload);
    if (type === "CalculationMemberKeepAliveEvent")
      stream.write(event("EventAckResponse", { id: "a", sourceEventId: payload.id, success: true }));
  });
  stream.on("error", ({ code }) => {
    say("ended", nameOf(code));
    setTimeout(serve, 100);
  });
  stream.on("end", () => {});
  stream.write(event("CalculationMemberJoinEvent", { id: "j", tags: ["member"] }));
}

const late = client.startStreaming(metadata, { deadline: Date.now() + 200 });
late.on("data", () => {});
late.on("error", ({ code }) => {
  say("late", nameOf(code));
  client.entityManage(event("Nothing", {}), metadata, { deadline: Date.now() + 20_000 }, (error) => {
    say("unary", error ? nameOf(error.code) : "OK");
    serve();
  });
});
process.on("SIGTERM", () => process.exit(0));
