// A client on the official TypeScript SDK: `node sdk_client.mjs PACKAGES FOLDER COMMAND…`. It prints what it saw as one JSON
// line. The SDK reads every message strictly, so whatever comes through has the shape that the protocol states.
import { spawn } from "node:child_process";
import { readFile, writeFile } from "node:fs/promises";
import { Readable, Writable } from "node:stream";
import { pathToFileURL } from "node:url";

const [packages, cwd, program, ...words] = process.argv.slice(2);
const entry = `${packages}/node_modules/@agentclientprotocol/sdk/dist/v1/stable/acp.js`;
const { client, methods, ndJsonStream } = await import(pathToFileURL(entry));
const { agent, client: ours } = methods;
const child = spawn(program, words, { stdio: ["pipe", "pipe", "inherit"], cwd });
const updates = [];
const asked = [];
const files = [];
let look = () => {};

const app = client({ name: "sdk-client" })
  .onNotification(ours.session.update, ({ params }) => {
    updates.push(params.update);
    look();
  })
  .onRequest(ours.session.requestPermission, ({ params }) => {
    asked.push(params.toolCall.title);
    look();
    return { outcome: { outcome: "selected", optionId: "allow_once" } };
  })
  .onRequest(ours.fs.readTextFile, async ({ params }) => {
    files.push("read");
    return { content: await readFile(params.path, "utf8") };
  })
  .onRequest(ours.fs.writeTextFile, async ({ params }) => {
    files.push("write");
    await writeFile(params.path, params.content);
    return {};
  });

// Resolves once the command runs, which is the second call that the person allowed.
const commandRuns = new Promise((resolve) => {
  look = () => {
    const command = updates.find((update) => update.sessionUpdate === "tool_call" && update.kind === "execute");
    const runs = updates.some((update) => update.toolCallId === command?.toolCallId && update.status === "in_progress");
    if (command && runs) resolve();
  };
});

const stream = ndJsonStream(Writable.toWeb(child.stdin), Readable.toWeb(child.stdout));
const seen = await app.connectWith(stream, async (peer) => {
  const capabilities = { fs: { readTextFile: true, writeTextFile: true } };
  const { agentInfo } = await peer.request(agent.initialize, { protocolVersion: 1, clientCapabilities: capabilities });
  const { sessionId } = await peer.request(agent.session.new, { cwd, mcpServers: [] });
  const say = async (text) => {
    const prompt = [{ type: "text", text }];
    return (await peer.request(agent.session.prompt, { sessionId, prompt })).stopReason;
  };
  const stops = [await say("read greeting.txt"), await say('replace "hello" with "good day" in greeting.txt')];
  await peer.request(agent.session.setMode, { sessionId, modeId: "edit" });
  const chosen = { sessionId, configId: "mode", value: "ask" };
  const { configOptions } = await peer.request(agent.session.setConfigOption, chosen);
  const running = say("run sleep 60");
  await commandRuns;
  await peer.notify(agent.session.cancel, { sessionId });
  stops.push(await running);
  const list = async () => (await peer.request(agent.session.list, {})).sessions.length;
  const listed = [await list()];
  await peer.request(agent.session.close, { sessionId });
  const before = updates.length;
  await peer.request(agent.session.load, { sessionId, cwd, mcpServers: [] });
  const replayed = updates.slice(before).map((update) => update.sessionUpdate);
  await peer.request(agent.session.resume, { sessionId, cwd, mcpServers: [] });
  await peer.request(agent.session.delete, { sessionId });
  listed.push(await list());
  return { name: agentInfo.name, stops, options: configOptions.map((option) => option.id), listed, replayed };
});
child.stdin.end();
const code = await new Promise((resolve) => child.on("exit", resolve));
console.log(JSON.stringify({ ...seen, asked, files, code }));
