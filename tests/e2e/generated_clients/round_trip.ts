// Creates an entity and reads it back with the client that openapi-fetch makes of the generated types.
//
// Usage: node round_trip.js http://127.0.0.1:8080/api TOKEN
import createClient from "openapi-fetch";
import type { components, paths } from "./schema.js";

const [baseUrl, token] = process.argv.slice(2);
const client = createClient<paths>({ baseUrl, headers: { Authorization: `Bearer ${token}` } });

const letter: components["schemas"]["Document"] = { text: "from a generated client" };
const created = await client.POST("/entity/{format}/{entityName}/{modelVersion}", {
  params: { path: { format: "JSON", entityName: "letter", modelVersion: 1 } },
  body: letter,
});
if (created.error) throw new Error(created.error.detail);
const entityId = created.data[0]?.entityIds[0];
if (!entityId) throw new Error("no entity was created");
const read = await client.GET("/entity/{entityId}", { params: { path: { entityId } } });
if (read.error) throw new Error(read.error.detail);
console.log(JSON.stringify({ id: read.data.meta.id, state: read.data.meta.state, data: read.data.data }));
