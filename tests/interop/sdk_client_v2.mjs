// A client of ACP v2 on the official TypeScript SDK: `node sdk_client_v2.mjs PACKAGES FOLDER COMMAND…`. It prints what it saw
// as one JSON line. The SDK reads every message strictly, so whatever comes through has the shape that the protocol states.
import { spawn } from "node:child_process";
import { Readable, Writable } from "node:stream";
import { pathToFileURL } from "node:url";

const [packages, cwd, program, ...words] = process.argv.slice(2);
const entry = `${packages}/node_modules/@agentclientprotocol/sdk/dist/v2/stable/acp.js`;
const { client, methods, ndJsonStream } = await import(pathToFileURL(entry));
const { agent, client: ours } = methods;
const child = spawn(program, words, { stdio: ["pipe", "pipe", "inherit"], cwd });
const updates = [];
const asked = [];
const answers = [];
let waiting = [];

const look = () => {
  waiting = waiting.filter(({ holds, resolve }) => !(holds() && (resolve(), true)));
};
const until = (holds) => new Promise((resolve) => (waiting.push({ holds, resolve }), look()));

const app = client({ name: "sdk-client" })
  .onNotification(ours.session.update, ({ params }) => {
    updates.push(params.update);
    look();
  })
  .onRequest(ours.session.requestPermission, ({ params }) => {
    asked.push({ title: params.title, subject: params.subject?.type });
    return { outcome: { outcome: "selected", optionId: answers.shift() ?? "allow_once" } };
  });

const of = (kind) => updates.filter((update) => update.sessionUpdate === kind);
const ends = () => of("state_update").filter((update) => update.stopReason);

const stream = ndJsonStream(Writable.toWeb(child.stdin), Readable.toWeb(child.stdout));
const seen = await app.connectWith(stream, async (peer) => {
  const about = { protocolVersion: 2, info: { name: "sdk-client", version: "1" }, capabilities: {} };
  const { protocolVersion, info, capabilities } = await peer.request(agent.initialize, about);
  const { sessionId, configOptions, availableCommands } = await peer.request(agent.session.new, { cwd });
  const send = (text, more = {}) =>
    peer.request(agent.session.prompt, { sessionId, prompt: [{ type: "text", text }], ...more });
  const say = async (text) => {
    const count = ends().length;
    const { messageId } = await send(text);
    await until(() => ends().length > count);
    return messageId;
  };
  const messages = [await say("read greeting.txt")];
  messages.push(await say('replace "hello" with "good day" in greeting.txt'));
  answers.push("reject_once");
  messages.push(await say('replace "world" with "moon" in greeting.txt'));
  messages.push(await say("run echo one | tee one.txt; echo two"));
  const chosen = { sessionId, configId: "mode", type: "id", value: "plan" };
  const options = (await peer.request(agent.session.setConfigOption, chosen)).configOptions;
  await peer.request(agent.session.setConfigOption, { ...chosen, value: "ask" });
  // A command that runs, prompts that wait behind it, and a cancel of them all.
  const count = ends().length;
  messages.push((await send("run sleep 60")).messageId);
  await until(() => of("tool_call_update").at(-1)?.status === "in_progress");
  const dropped = send("read greeting.txt").then(() => 0, (error) => error.code);
  await peer.notify(agent.session.cancel, { sessionId });
  const code = await dropped;
  await until(() => ends().length > count);
  // Two prompts at once: the second waits for the end of the first, then the second joins the first between its calls.
  const overlap = (value) => peer.request(agent.session.setConfigOption, { ...chosen, configId: "overlapping", value });
  const two = async () => {
    const both = await Promise.all([send("read greeting.txt"), send("read greeting.txt")]);
    messages.push(...both.map(({ messageId }) => messageId));
  };
  await overlap("queue");
  await two();
  await until(() => ends().length > count + 2);
  await overlap("steer");
  await two();
  await until(() => of("user_message").length === messages.length && of("state_update").at(-1).stopReason);
  const stops = ends().map((update) => update.stopReason);
  const shown = of("user_message").map((update) => update.messageId);
  const list = async () => (await peer.request(agent.session.list, {})).sessions.length;
  const listed = [await list()];
  await peer.request(agent.session.close, { sessionId });
  updates.length = 0;
  await peer.request(agent.session.resume, { sessionId, cwd, replayFrom: { type: "start" } });
  // The SDK hands on an answer before the notifications that came ahead of it.
  await until(() => of("state_update").length > 0);
  const replayed = updates.map((update) => update.sessionUpdate);
  const replayedMessages = of("user_message").map((update) => update.messageId);
  await peer.request(agent.session.delete, { sessionId });
  listed.push(await list());
  return {
    protocolVersion, name: info.name, session: Object.keys(capabilities.session), messages, shown, stops, listed, code, replayed,
    replayedMessages, options: options.map((option) => [option.configId, option.currentValue]),
    commands: availableCommands.length, first: configOptions.length,
  };
});
child.stdin.end();
const exit = await new Promise((resolve) => child.on("exit", resolve));
console.log(JSON.stringify({ ...seen, asked, exit }));
