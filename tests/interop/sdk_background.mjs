// A client of ACP v2 on the official TypeScript SDK, what is not stable included: `node sdk_background.mjs PACKAGES FOLDER COMMAND…`.
// It cancels one call of a turn, watches a subagent, and lets a command in the background end, which wakes the session. What it saw
// is printed as one JSON line.
import { spawn } from "node:child_process";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { Readable, Writable } from "node:stream";
import { pathToFileURL } from "node:url";

const [packages, cwd, program, ...words] = process.argv.slice(2);
const entry = `${packages}/node_modules/@agentclientprotocol/sdk/dist/v2/unstable/acp.js`;
const { client, methods, ndJsonStream } = await import(pathToFileURL(entry));
const { agent, client: ours } = methods;
const child = spawn(program, words, { stdio: ["pipe", "pipe", "inherit"], cwd });
const updates = [];
let waiting = [];

const look = () => {
  waiting = waiting.filter(({ holds, resolve }) => !(holds() && (resolve(), true)));
};
const until = (holds) => new Promise((resolve) => (waiting.push({ holds, resolve }), look()));

const app = client({ name: "sdk-background" })
  .onNotification(ours.session.update, ({ params }) => {
    updates.push({ session: params.sessionId, ...params.update });
    look();
  })
  .onRequest(ours.session.requestPermission, () => ({ outcome: { outcome: "selected", optionId: "allow_once" } }));

const stream = ndJsonStream(Writable.toWeb(child.stdin), Readable.toWeb(child.stdout));
const seen = await app.connectWith(stream, async (peer) => {
  const about = { protocolVersion: 2, info: { name: "sdk-background", version: "1" }, capabilities: {} };
  await peer.request(agent.initialize, about);
  const { sessionId } = await peer.request(agent.session.new, { cwd });
  const of = (kind) => updates.filter((one) => one.session === sessionId && one.sessionUpdate === kind);
  const ends = () => of("state_update").filter((one) => one.stopReason);
  await peer.request(agent.session.prompt, { sessionId, prompt: [{ type: "text", text: "Build it" }] });
  await until(() => of("tool_call_update").at(-1)?.status === "in_progress");
  const { toolCallId } = of("tool_call_update").at(-1);
  await peer.request(agent.toolCall.cancel, { sessionId, toolCallId });
  await until(() => ends().length === 1);
  const running = of("state_update").at(-1).background.map(({ type }) => type);
  await writeFile(join(cwd, "go"), "");
  await until(() => ends().length === 2);
  const call = of("tool_call_update").filter((one) => one.toolCallId === toolCallId && one.status).at(-1);
  const children = [...new Set(of("subagent_update").map((one) => one.sessionId))];
  return {
    cancelled: call.status, running, left: of("state_update").at(-1).background.length,
    stops: ends().map((one) => one.stopReason), children: children.length,
    work: updates.filter((one) => children.includes(one.session)).map((one) => one.sessionUpdate),
    messages: of("user_message").length,
    said: of("agent_message_chunk").map((one) => one.content.text).join(""),
  };
});
child.stdin.end();
const exit = await new Promise((resolve) => child.on("exit", resolve));
console.log(JSON.stringify({ ...seen, exit }));
