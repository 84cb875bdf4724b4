// A collector that is none: peer.mjs NODE_MODULES ENDPOINT MODE. garbage: answers everything with bytes that mean nothing. silent:
// welcomes and acknowledges, and answers no ask. wrong: answers each ask with actions that cannot be applied. Prints one line when it
// is bound, and one JSON line for each event.
import { createRequire } from "node:module";

const [modules, endpoint, mode] = process.argv.slice(2);
const require = createRequire(modules + "/");
const zmq = require("zeromq");
const { encode, decode } = require("@msgpack/msgpack");
const options = { useBigInt64: true };
const router = new zmq.Router({ linger: 0 });
await router.bind(endpoint);
console.log("bound");

const GARBAGE = [Buffer.from([0xc1]), Buffer.from("not MessagePack"), encode([1, "answer", 1, 1, null]), encode([1, "welcome", { nonce: 5 }]), encode([7]), encode(null)];
let next = 0;
const send = (route, ...parts) => router.send([route, encode([1, ...parts], options)]);
const WRONG = [
  { replace: { text: 5 } },
  { remove: ["no such message"], strip: { x: 7 }, stripContent: "no" },
  { inject: { toolCallId: "x" } },
  { replace: "none" },
];

async function events(route, items) {
  for (const [seq, body] of items) {
    const event = decode(body, options);
    console.log(JSON.stringify(event, (_key, value) => (typeof value === "bigint" ? Number(value) : typeof value === "string" ? value.slice(0, 100) : value)));
    if (mode === "wrong" && event.ask) await send(route, "answer", seq, 1n, WRONG[next++ % WRONG.length]);
  }
  await send(route, "ack", items.at(-1)[0], 1n);
}

for await (const [route, bytes] of router) {
  if (mode === "garbage") {
    await router.send([route, GARBAGE[next++ % GARBAGE.length]]);
    continue;
  }
  if (bytes.length === 0) {
    await send(route, "greet");
    continue;
  }
  const [, op, first, second] = decode(bytes, options);
  const limits = { position: 0, window: 4096, windowBytes: 4 << 20, maxEventBytes: 16 << 20, longestAskMs: 250 };
  if (op === "hello") await send(route, "welcome", { nonce: first.nonce, stream: 9n, instance: 1n, ...limits });
  else if (op === "outcomes") for (const [seq, outcome] of first) console.log(JSON.stringify({ kind: "outcome", seq: Number(seq), outcome }));
  else if (op === "events") await events(route, second);
}
