// The parts of the extension one by one: unit.mjs NODE_MODULES SOURCE. TAP.
import assert from "node:assert/strict";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";

const [modules, source] = process.argv.slice(2);
const require = createRequire(modules + "/");
const jiti = require("jiti").createJiti(import.meta.url);
const load = (name) => jiti.import(join(source, "agents/pi", name + ".ts"));
const { messageTokens } = await load("estimate");
const { short, Stats } = await load("stats");
const { Queue } = await load("queue");
const { makeCodec } = await load("codec");
const { itemsOf, messageId } = await load("messages");
const { applyAnswer, Removals } = await load("removals");
const { readSettings } = await load("settings");
const { replaced, resultEvent } = await load("results");
const cases = JSON.parse(readFileSync(join(source, "tests/cases/estimate_tokens.json"), "utf8"));

// ---- messages in pi's own form ----
const block = (one) =>
  one.call ? { type: "toolCall", ...one.call } : one.image ? { type: "image", data: "", mimeType: one.image } : "thinking" in one ? { type: "thinking", ...one } : { type: "text", ...one };
function asPi(message) {
  const content = message.blocks ? message.blocks.map(block) : message.text;
  if (message.role === "shell") return { role: "bashExecution", command: message.command, output: message.output };
  if (message.role === "summary") return { role: "compactionSummary", summary: message.text };
  return { role: message.role === "tool" ? "toolResult" : message.role, content };
}
const assistant = (id, ...calls) => ({ role: "assistant", timestamp: id, content: calls.map((call) => ({ type: "toolCall", id: call, name: "write", arguments: { path: call, content: "text" } })) });
const result = (call) => ({ role: "toolResult", timestamp: 1, toolCallId: call, toolName: "write", content: [{ type: "text", text: call }] });
const user = { role: "user", timestamp: 0, content: "go" };
const settingsOf = (text, env = {}) => {
  const folder = mkdtempSync(join(tmpdir(), "ctxp-"));
  try {
    writeFileSync(join(folder, "ctxpipe.json"), text);
    return readSettings({ PI_CODING_AGENT_DIR: folder, ...env });
  } finally {
    rmSync(folder, { recursive: true });
  }
};

const tests = {
  sizes_of_messages_are_those_of_pi() {
    const known = cases.messages.filter((one) => one.message.role !== "system");
    for (const { name, message, tokens } of known) assert.equal(messageTokens(asPi(message)), tokens, name);
    for (const { name, raw, tokens } of cases.raw) if (!raw.includes('"system"')) assert.equal(messageTokens(JSON.parse(raw)), tokens, name);
    assert.ok(known.length > 20);
  },
  figures_of_the_line_are_rounded_as_everywhere() {
    for (const { n, text } of cases.line) assert.equal(short(n), text);
  },
  what_is_not_acknowledged_goes_out_again_in_order() {
    const queue = new Queue(1 << 20);
    for (let i = 0; i < 5; i++) queue.add(new Uint8Array(10));
    assert.deepEqual(queue.next(0, 3, 1000).entries.map((entry) => entry.seq), [1, 2, 3]);
    assert.equal(queue.next(0, 3, 1000), undefined);
    queue.drop(2);
    assert.deepEqual(queue.next(2, 3, 1000), { prev: 3, entries: [{ seq: 4, body: new Uint8Array(10) }, { seq: 5, body: new Uint8Array(10) }] });
    queue.rewind();
    const again = queue.next(2, 10, 1000);
    assert.deepEqual([again.prev, ...again.entries.map((entry) => entry.seq)], [2, 3, 4, 5]);
  },
  before_the_first_welcome_numbers_are_not_final() {
    const queue = new Queue(1 << 20);
    queue.add(new Uint8Array(1));
    queue.add(new Uint8Array(1));
    queue.renumber(41);
    assert.deepEqual(queue.next(41, 10, 1000).entries.map((entry) => entry.seq), [42, 43]);
    assert.equal(queue.lastNumber, 43);
  },
  a_queue_is_bounded_and_a_large_event_travels_alone() {
    const queue = new Queue(100000);
    assert.ok(queue.add(new Uint8Array(90000)));
    assert.equal(queue.add(new Uint8Array(20000)), undefined);
    assert.ok(queue.add(new Uint8Array(10)));
    assert.equal(queue.next(0, 10, 1000).entries.length, 1);
    assert.equal(queue.next(0, 10, 1000), undefined);
    queue.drop(1);
    assert.equal(queue.next(1, 10, 1000).entries.length, 1);
    assert.equal(queue.bytes, 74);
  },
  whatever_javascript_holds_becomes_messagepack_that_the_collector_takes() {
    const codec = makeCodec(require("@msgpack/msgpack"));
    const deep = [];
    let at = deep;
    for (let i = 0; i < 100; i++) at.push((at = []));
    const back = codec.decode(codec.encode({ half: "a\ud83d", big: 1796076570418, small: -5, none: undefined, run() {}, list: [undefined, () => 1], deep, half_key: { "\udc00": 1 } }));
    assert.equal(back.half, "a\ufffd");
    assert.equal(back.big, 1796076570418n);
    assert.equal(back.small, -5);
    assert.ok(!("none" in back) && !("run" in back));
    assert.deepEqual(back.list, [null, null]);
    assert.deepEqual(Object.keys(back.half_key), ["\ufffd"]);
    assert.ok(JSON.stringify(back.deep).length < 60);
  },
  an_id_is_the_same_whenever_it_is_made_and_another_for_the_same_text_again() {
    const messages = [user, assistant(1, "a"), result("a"), { role: "custom", customType: "x", content: "fact", timestamp: 5 }, { role: "custom", customType: "x", content: "fact", timestamp: 6 }];
    const ids = itemsOf(messages).map((item) => item.id);
    assert.deepEqual(itemsOf(structuredClone(messages)).map((item) => item.id), ids);
    assert.equal(new Set(ids).size, ids.length);
    assert.equal(ids[4], ids[3] + "#2");
    assert.equal(messageId({ ...messages[3], timestamp: 9 }), ids[3]);
  },
  what_is_sent_to_no_model_is_no_part_of_the_request() {
    const failed = { ...assistant(1, "a"), stopReason: "error" };
    assert.equal(itemsOf([user, failed, { role: "bashExecution", command: "a", output: "b", excludeFromContext: true }]).length, 1);
  },
  an_answer_is_applied_as_a_whole_or_not_at_all() {
    const items = itemsOf([user, assistant(1, "a", "b"), result("a"), result("b")]);
    const [, owner, a, b] = items.map((item) => item.id);
    const good = applyAnswer(items, { remove: [a], strip: { [owner]: ["a"] }, stripContent: ["b"] });
    assert.deepEqual(good.items.map((item) => item.id), [items[0].id, owner, b]);
    assert.deepEqual(good.items[1].message.content.map((one) => [one.id, one.arguments]), [["b", { path: "b" }]]);
    assert.equal(items[1].message.content.length, 2, "the session's own message was changed");
    for (const bad of [{ remove: [a] }, { strip: { [owner]: ["a"] } }, { remove: ["x"] }, { remove: items.map((item) => item.id) }, { strip: { x: ["a"] } }])
      assert.equal(applyAnswer(items, bad), undefined, JSON.stringify(bad));
  },
  what_was_removed_stays_removed_when_it_is_read_back() {
    const items = itemsOf([user, assistant(1, "a"), result("a"), assistant(2, "b"), result("b")]);
    const first = new Removals();
    const fresh = first.add({ remove: [items[1].id, items[2].id], strip: {}, content: ["b"] });
    assert.equal(first.add({ remove: [items[1].id], strip: {}, content: ["b"] }), undefined);
    const second = new Removals();
    second.load(JSON.parse(JSON.stringify(fresh)));
    second.load({ remove: "damaged", strip: { x: 5 } });
    assert.deepEqual(second.apply(items).map((item) => item.id), [items[0].id, items[3].id, items[4].id]);
    assert.deepEqual(second.apply(items)[1].message.content[0].arguments, { path: "b" });
  },
  in_another_branch_half_a_removal_is_none() {
    const items = itemsOf([user, assistant(1, "a"), result("a")]);
    const removals = new Removals();
    removals.load({ remove: [items[2].id] });
    assert.deepEqual(removals.apply(items), items);
  },
  a_replacement_leaves_what_is_no_text() {
    const event = { content: [{ type: "text", text: "one" }, { type: "image", data: "x" }, { type: "text", text: "two" }], details: { fullOutputPath: "/tmp/x", other: 1 } };
    const { content, details } = replaced(event, { text: "new", details: { drop: ["fullOutputPath"], add: { summarized: true } } });
    assert.deepEqual(content, [{ type: "text", text: "new" }, { type: "image", data: "x" }]);
    assert.deepEqual(details, { other: 1, summarized: true });
    for (const bad of [undefined, "text", { text: 5 }, {}]) assert.equal(replaced(event, bad), undefined);
    assert.equal(replaced({ content: [] }, { text: "new" }), undefined);
  },
  a_result_has_the_fields_that_are_looked_at_and_no_others() {
    const { event, cut } = resultEvent({ toolName: "bash", toolCallId: "c", input: { command: "x", secret: "y" }, isError: true, content: [{ type: "text", text: "boom\n\nCommand exited with code 3" }] }, 4, 10);
    assert.ok(cut);
    assert.deepEqual([event.text.length, event.textUnits, event.exitCode, event.input], [10, 32, 3, { command: "x" }]);
  },
  a_snapshot_keeps_forty_turns_and_takes_none_twice() {
    const stats = new Stats();
    for (let turn = 1; turn <= 45; turn++)
      for (let i = 0; i < 2; i++) stats.take({ cumulative: { bash: turn, amnesia: 0, lazy: 0, write: 0, total: turn }, last: { turn, bash: 1, amnesia: 0, lazy: 0, write: 0, total: 1 } });
    assert.deepEqual([stats.snapshot.turns.length, stats.snapshot.turns[0].turn, stats.lastTurn, stats.snapshot.cumulative.total], [40, 6, 45, 45]);
    const again = new Stats();
    assert.ok(again.restore(JSON.parse(JSON.stringify(stats.snapshot))));
    assert.deepEqual(again.snapshot, stats.snapshot);
    assert.ok(!again.restore({ turns: 5 }) && !again.restore(null));
  },
  a_wrong_setting_is_one_sentence_that_says_what_would_be_right() {
    assert.equal(settingsOf('{"timeoutMs": 700}').timeoutMs, 700);
    assert.equal(settingsOf('{"timeoutMs": 700}', { CTXPIPE_TIMEOUT_MS: "9" }).timeoutMs, 9);
    assert.throws(() => settingsOf('{"timeoutMs": 0}'), /ctxpipe.json: timeoutMs must be a whole number from 1 to 600000$/);
    assert.throws(() => settingsOf("{}", { CTXPIPE_TIMEOUT_MS: "soon" }), /CTXPIPE_TIMEOUT_MS: timeoutMs must be a whole number/);
    assert.throws(() => settingsOf("{"), /ctxpipe.json: is not JSON/);
    assert.throws(() => settingsOf("[]"), /must be one JSON object/);
    assert.throws(() => settingsOf('{"tools": "read"}'), /tools must be a list of tool names/);
    assert.throws(() => settingsOf("{}", { CTXPIPE_ENDPOINT: "here" }), /endpoint must be ipc:\/\/PATH or tcp:\/\/HOST:PORT/);
  },
};

console.log(`1..${Object.keys(tests).length}`);
let number = 0;
let failed = 0;
for (const [name, run] of Object.entries(tests)) {
  number++;
  try {
    await run();
    console.log(`ok ${number} - ${name}`);
  } catch (error) {
    failed++;
    console.log(`not ok ${number} - ${name}`);
    console.log(String(error.stack).replace(/^/gm, "# "));
  }
}
process.exit(failed ? 1 : 0);
