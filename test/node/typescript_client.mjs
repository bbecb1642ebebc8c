// Drives the robot with the TypeScript SDK: node typescript_client.mjs NODE_MODULES URL
// Prints one JSON object: what the client saw.
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";
import path from "node:path";

const [modules, url] = process.argv.slice(2);
const require = createRequire(pathToFileURL(path.join(modules, "anchor.js")));
const load = (name) => import(pathToFileURL(require.resolve(`@modelcontextprotocol/sdk/${name}`)).href);
const { Client } = await load("client/index.js");
const { StreamableHTTPClientTransport } = await load("client/streamableHttp.js");

const client = new Client({ name: "typescript-test", version: "1" });
const transport = new StreamableHTTPClientTransport(new URL(url));
await client.connect(transport);
const seen = { server: client.getServerVersion(), protocol: transport.protocolVersion, progress: [] };

// Listing the tools makes the client hold every structured answer to its tool's output schema.
const { tools } = await client.listTools();
seen.tools = tools.map((tool) => tool.name);
seen.annotations = tools.find((tool) => tool.name === "navigate_to").annotations;

const call = (name, args, options) => client.callTool({ name, arguments: args }, undefined, options);

seen.refused = await call("navigate_to", { place: "atlantis" });

const begun = await call("navigate_to", { place: "workshop", idempotency_key: "typescript" });
seen.begun = begun.structuredContent;
seen.awaited = [];
for (let outcome; outcome?.structuredContent?.state !== "succeeded"; ) {
  outcome = await call(
    "await_task",
    { handle: begun.structuredContent.handle, wait_s: 50 },
    { onprogress: (progress) => seen.progress.push(progress), timeout: 60_000 },
  );
  seen.awaited.push(outcome);
  if (outcome.isError) break;
}
seen.repeated = await call("navigate_to", { place: "workshop", idempotency_key: "typescript" });
seen.task = await call("get_task", { task_id: begun.structuredContent.task_id });
await client.close();
console.log(JSON.stringify(seen));
