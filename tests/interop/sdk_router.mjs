// Clients of both versions on the official TypeScript SDK, behind its protocol router, which starts the agent for whichever
// version a client asks for: `node sdk_router.mjs PACKAGES FOLDER COMMAND…`. The client of version 2 uses what is not stable,
// and serves the agent's files by MCP over ACP. What was seen is printed as one JSON line.
import { spawn } from "node:child_process";
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { Readable, Writable } from "node:stream";
import { pathToFileURL } from "node:url";

const [packages, cwd, program, ...words] = process.argv.slice(2);
const load = (file) => import(pathToFileURL(`${packages}/node_modules/@agentclientprotocol/sdk/dist/${file}`));
const [first, second, { agentProtocolRouter }] = await Promise.all(
  ["v1/stable/acp.js", "v2/unstable/acp.js", "protocol-router.js"].map(load),
);
const exits = [];
let child;
const asked = [];

const spawned = {
  connect(stream) {
    child = spawn(program, words, { stdio: ["pipe", "pipe", "inherit"], cwd });
    const far = first.ndJsonStream(Writable.toWeb(child.stdin), Readable.toWeb(child.stdout));
    stream.readable.pipeTo(far.writable).catch(() => {});
    far.readable.pipeTo(stream.writable).catch(() => {});
    const ended = child;
    const closed = new Promise((resolve) => ended.on("exit", (code) => (exits.push(code), resolve())));
    return { closed };
  },
};
const router = agentProtocolRouter().withV1(spawned).withV2(spawned);

// Connects a client through the router; resolves with what it saw once the agent has ended.
const through = async (app, talk) => {
  const toAgent = new TransformStream();
  const toClient = new TransformStream();
  const { closed } = router.connect({ readable: toAgent.readable, writable: toClient.writable });
  const seen = await app.connectWith({ readable: toClient.readable, writable: toAgent.writable }, talk);
  child.stdin.end();
  await closed;
  return seen;
};

const chunks = { 1: [], 2: [] };
const answer = { outcome: { outcome: "selected", optionId: "allow_once" } };

const one = first
  .client({ name: "router-client" })
  .onNotification(first.methods.client.session.update, ({ params }) => chunks[1].push(params.update))
  .onRequest(first.methods.client.session.requestPermission, ({ params }) => (asked.push(params.toolCall.title), answer));
const v1 = await through(one, async (peer) => {
  const { agent } = first.methods;
  const { protocolVersion } = await peer.request(agent.initialize, { protocolVersion: 1, clientCapabilities: {} });
  const { sessionId } = await peer.request(agent.session.new, { cwd, mcpServers: [] });
  const prompt = [{ type: "text", text: "read greeting.txt" }];
  return { protocolVersion, stop: (await peer.request(agent.session.prompt, { sessionId, prompt })).stopReason };
});

const buffers = new Map([[join(cwd, "greeting.txt"), "unsaved\nworld\n"]]);
const used = [];
const tool = (name, use, ...properties) => ({
  name,
  description: name,
  inputSchema: {
    type: "object", required: properties, properties: Object.fromEntries(properties.map((key) => [key, { type: "string" }])),
  },
  _meta: { pattern: { files: use } },
});
const kept = { resultType: "complete", ttlMs: 0, cacheScope: "private" };
const handler = async ({ method, params }) => {
  used.push(method);
  look();
  if (method === "server/discover") {
    const serverInfo = { name: "editor", version: "1" };
    return { result: { ...kept, supportedVersions: ["2026-07-28"], capabilities: { tools: {} }, serverInfo } };
  }
  if (method === "tools/list") {
    return { result: { ...kept, tools: [tool("open", "read", "path"), tool("save", "write", "path", "content")] } };
  }
  const { path, content } = params.arguments;
  if (content !== undefined) {
    buffers.set(path, content);
    await writeFile(path, content);
    return { result: { resultType: "complete", content: [] } };
  }
  const text = buffers.get(path) ?? (await readFile(path, "utf8"));
  return { result: { resultType: "complete", content: [{ type: "text", text }] } };
};

let waiting = [];
const look = () => (waiting = waiting.filter(({ holds, resolve }) => !(holds() && (resolve(), true))));
const until = (holds) => new Promise((resolve) => (waiting.push({ holds, resolve }), look()));
const ends = () => chunks[2].filter(({ sessionUpdate, stopReason }) => sessionUpdate === "state_update" && stopReason);
const provider = new second.McpOverAcpProvider();
const two = second
  .client({ name: "router-client" })
  .onRequest(second.methods.client.mcp.message, provider.handleRequest)
  .onNotification(second.methods.client.session.update, ({ params }) => (chunks[2].push(params.update), look()))
  .onRequest(second.methods.client.session.requestPermission, ({ params }) => (asked.push(params.title), answer));
const v2 = await through(two, async (peer) => {
  const { agent } = second.methods;
  const about = { protocolVersion: 2, info: { name: "router-client", version: "1" }, capabilities: {} };
  const { protocolVersion, capabilities } = await peer.request(agent.initialize, about);
  const { declaration } = provider.registerServer(peer, { name: "editor", handler });
  const { sessionId } = await peer.request(agent.session.new, { cwd, mcpServers: [declaration] });
  const say = async (text) => {
    const count = ends().length;
    await peer.request(agent.session.prompt, { sessionId, prompt: [{ type: "text", text }] });
    await until(() => ends().length > count);
  };
  // A busy machine may take longer to get ready for a server than a prompt waits.
  await until(() => used.includes("tools/list"));
  await say("read greeting.txt");
  await say('replace "unsaved" with "edited" in greeting.txt');
  const { title } = await peer.request(agent.session.setTitle, { sessionId, title: " About greetings " });
  const status = [(await peer.request(agent.session.status, { sessionId })).status];
  const fork = await peer.request(agent.session.fork, { sessionId, cwd });
  await peer.request(agent.session.archive, { sessionId });
  status.push((await peer.request(agent.session.status, { sessionId })).status);
  const list = async (archived) =>
    (await peer.request(agent.session.list, { archived })).sessions.map((session) => session.sessionId);
  const listed = [(await list("exclude")).includes(sessionId), (await list("only")).includes(sessionId)];
  await peer.request(agent.session.unarchive, { sessionId });
  listed.push((await list("exclude")).includes(sessionId));
  return {
    protocolVersion, title, status, listed, forked: fork.sessionId !== sessionId, offered: Object.keys(capabilities.session),
    stops: ends().map((update) => update.stopReason), used: [...new Set(used)], buffer: buffers.get(join(cwd, "greeting.txt")),
    tokens: ends().map((update) => typeof update.usage?.totalTokens),
  };
});
console.log(JSON.stringify({ v1, v2, asked, exits, words: chunks[1].length > 0 }));
