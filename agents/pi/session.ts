// One session of pi: what it tells ctxpipe, in which order, and what it does with the answers.
import { createHash, randomBytes } from "node:crypto";
import type { Actions, Answer, Client } from "./client.ts";
import { callsOf, definition, itemsOf, messageId, skeleton, type Item } from "./messages.ts";
import { applyAnswer, Removals } from "./removals.ts";
import { replaced, resultEvent } from "./results.ts";
import type { Settings } from "./settings.ts";
import type { Stats } from "./stats.ts";

const REMOVED_ENTRY = "ctxpipe-removed";
const LOST_ENTRY = "ctxpipe-lost";
const FACT_MESSAGE = "ctxpipe-fact";
const SIDE = "side";

type Event = Record<string, unknown>;
const NANO = 1e9;
const nano = (dollars: unknown): number | undefined => (typeof dollars === "number" && dollars > 0 ? Math.round(dollars * NANO) : undefined);
const count = (value: unknown): number => (typeof value === "number" && value > 0 ? Math.floor(value) : 0);

export const clientKey = (session: string): string => `pi-${session.slice(0, 60)}-${randomBytes(6).toString("hex")}`;

export class Session {
  readonly removals = new Removals();
  client: Client | undefined; // none: only what was removed stays removed
  private turn = 0;
  private request: Item[] = []; // as it was sent last
  private window: string[] = []; // as pi had it, what is removed counted
  private reported: string[] = []; // ids of the last `prompt`
  private whole = true; // the next `prompt` gives its whole list
  private lost = { count: 0, bytes: 0 };
  private compacted = false;
  private beside = false; // the thread of calls beside the window has begun
  private readonly defined = new Set<string>();
  private toolsHash = "";

  constructor(
    private readonly pi: any,
    private readonly id: string,
    private readonly settings: Settings,
  ) {}

  // ---- sending ----
  private body(event: Event): Event {
    const { kind, ...fields } = event;
    return { kind, ts: Date.now(), agent: this.settings.agent, session: this.id, ...fields };
  }

  /** What was dropped is said before anything else goes. */
  private room(): boolean {
    if (!this.client) return false;
    if (!this.lost.count) return true;
    if (!this.client.send(this.body({ kind: "gap", count: this.lost.count, bytes: this.lost.bytes }))) return false;
    this.lost = { count: 0, bytes: 0 };
    return true;
  }

  private send(event: Event): boolean {
    if (!this.client) return false;
    const before = this.client.counts.droppedBytes;
    if (this.room() && this.client.send(this.body(event))) return true;
    this.lost.count++;
    this.lost.bytes += this.client.counts.droppedBytes - before;
    this.whole = true;
    return false;
  }

  /** undefined: nobody answered; the event is told all the same */
  private async ask(event: Event, signal: AbortSignal | undefined): Promise<Answer | undefined> {
    if (!this.client?.mayAsk || this.lost.count) {
      this.send(event);
      return undefined;
    }
    const dropped = this.client.counts.dropped;
    const answer = await this.client.ask(this.body({ ...event, ask: true }), this.settings.timeoutMs, signal);
    if (this.client.counts.dropped > dropped && !answer) this.whole = true;
    return answer;
  }

  // ---- the session's events ----
  start(ctx: any, stats: Stats, restore: boolean): void {
    const { cumulative, turns } = stats.snapshot;
    this.send({ kind: "session_start", product: "pi", model: ctx.model?.id, cwd: ctx.cwd, restore: restore ? { cumulative, turns } : undefined });
  }

  end(reason: string): void {
    if (this.beside && reason !== "reload") this.send({ kind: "session_end", thread: SIDE, reason });
    if (reason !== "reload") this.send({ kind: "session_end", reason });
  }

  /** What nobody acknowledged before the end is told as a gap when the session comes back. */
  keepLost(): void {
    const lost = this.lost.count + (this.client?.pending ?? 0);
    if (lost) this.pi.appendEntry(LOST_ENTRY, { count: lost });
  }

  tellLost(ctx: any): void {
    const last = ctx.sessionManager.getBranch().filter((entry: any) => entry.type === "custom" && entry.customType === LOST_ENTRY).at(-1);
    const lost = count(last?.data?.count);
    if (!lost) return;
    this.lost.count += lost;
    this.pi.appendEntry(LOST_ENTRY, { count: 0 });
  }

  /** What the branch says of earlier removals. */
  loadRemovals(ctx: any): void {
    for (const entry of ctx.sessionManager.getBranch())
      if (entry.type === "custom" && entry.customType === REMOVED_ENTRY) this.removals.load(entry.data);
  }

  /** Numbers go on where the branch ends: one turn for each answer of the model. */
  countTurns(ctx: any): void {
    this.turn = ctx.sessionManager.getBranch().filter((entry: any) => entry.type === "message" && entry.message?.role === "assistant").length;
  }

  agentStart(): void {
    const active: string[] = this.pi.getActiveTools();
    const tools = this.pi.getAllTools().map((tool: any) => ({
      name: tool.name,
      description: tool.description ?? "",
      parameters: tool.parameters === undefined ? undefined : JSON.parse(JSON.stringify(tool.parameters)),
      guidelines: tool.promptGuidelines,
    }));
    const shown = tools.filter((tool: any) => active.includes(tool.name));
    this.toolsHash = createHash("sha1").update(JSON.stringify(shown)).digest("base64url");
    this.send({ kind: "agent_start", tools, activeTools: active });
  }

  agentEnd(): void {
    this.send({ kind: "agent_end" });
  }

  turnStart(): void {
    this.turn++;
    this.send({ kind: "turn_start", turn: this.turn });
  }

  turnEnd(): void {
    this.send({ kind: "turn_end", turn: this.turn });
  }

  compaction(entry: any, model: string | undefined): void {
    this.compacted = true;
    const summaryId = messageId({ role: "compactionSummary", summary: entry.summary });
    this.send({ kind: "compaction", summaryId, before: count(entry.tokensBefore) || undefined });
    this.side(entry, model);
  }

  /** A model call beside the window, such as that for a summary: billed in a thread of its own. */
  side(entry: any, model: string | undefined): void {
    const reported = this.reportedUsage(entry?.usage);
    if (!reported.usage) return;
    if (!this.beside) this.send({ kind: "session_start", thread: SIDE, product: "pi", parentThread: "" });
    this.beside = true;
    this.send({ kind: "prompt", thread: SIDE, callId: [this.id, SIDE, entry.id].join(":"), model, request: [], ...reported, source: "provider" });
  }

  // ---- results ----
  async result(event: any, signal: AbortSignal | undefined): Promise<{ content: unknown[]; details: unknown } | undefined> {
    if (!this.client) return undefined;
    const told = resultEvent(event, this.turn, this.client.maxEventBytes >> 2);
    if (told.cut) {
      this.send(told.event);
      return undefined;
    }
    const answer = await this.ask(told.event, signal);
    const { replace, inject } = answer?.actions ?? {};
    if (inject) this.inject(answer as Answer, inject);
    if (!replace) return undefined;
    const result = replaced(event, replace);
    answer?.tell(result ? "applied" : "refused");
    return result;
  }

  private inject(answer: Answer, inject: any): void {
    const toolCallId = String(inject.toolCallId);
    let ok = typeof inject.fact === "string";
    try {
      if (ok) this.pi.sendMessage({ customType: FACT_MESSAGE, content: inject.fact, display: false, details: { toolCallId } }, { deliverAs: "steer" });
    } catch {
      ok = false;
    }
    answer.tell("applied"); // what became of the fact is said by the event
    this.send({ kind: "write_injected", toolCallId, ok });
  }

  // ---- requests ----
  /** The messages to send instead; undefined: as they are. */
  async context(messages: any[], model: string | undefined, signal: AbortSignal | undefined): Promise<any[] | undefined> {
    const all = itemsOf(messages);
    let items = this.removals.apply(all);
    if (this.client) {
      this.evicted(all);
      const asked: Event = { kind: "context", turn: this.turn, model, toolsHash: this.toolsHash || undefined, messages: items.map(skeleton) };
      const answer = await this.ask(asked, signal);
      if (answer && Object.keys(answer.actions).length) items = this.applied(items, answer);
      this.define(items, all);
    }
    this.request = items;
    const same = items.length === all.length && items.every((item, i) => item.message === all[i].message);
    return same ? undefined : items.map((item) => item.message);
  }

  private applied(items: Item[], answer: Answer): Item[] {
    const changed = applyAnswer(items, answer.actions as Actions);
    answer.tell(changed ? "applied" : "refused");
    if (!changed) return items;
    const fresh = this.removals.add(changed.removed);
    if (fresh) this.pi.appendEntry(REMOVED_ENTRY, fresh);
    return changed.items;
  }

  /** What was in pi's own window and is no more, without a compaction: a branch was left. */
  private evicted(all: Item[]): void {
    const now = new Set(all.map((item) => item.id));
    const ids = this.compacted ? [] : this.window.filter((id) => !now.has(id));
    this.window = [...now];
    this.compacted = false;
    if (ids.length) this.send({ kind: "evict", ids, reason: "rewind" });
  }

  private define(items: Item[], all: Item[]): void {
    const paths = new Map<string, string>();
    for (const { message } of all)
      for (const call of callsOf(message)) if (typeof call.arguments?.path === "string") paths.set(call.id, call.arguments.path);
    for (const item of items) {
      if (this.defined.has(item.id)) continue;
      if (this.send(definition(item, paths.get(item.message.toolCallId)))) this.defined.add(item.id);
    }
  }

  /** The model has answered: what was in the request, and what was reported. */
  reply(message: any): void {
    const ids = this.request.map((item) => item.id);
    let keep = 0;
    while (keep < ids.length && ids[keep] === this.reported[keep]) keep++;
    const failed = message.stopReason === "error" || message.stopReason === "aborted";
    const refs = (from: number) => ids.slice(from).map((id) => ({ id }));
    const list = this.whole ? { request: refs(0) } : { keep, append: refs(keep) };
    const persons = this.request.slice(this.whole ? 0 : keep).filter((item) => item.message.role === "user");
    const sent = this.send({
      kind: "prompt",
      turn: this.turn,
      callId: [this.id, message.timestamp, message.responseId ?? ""].join(":"),
      model: message.responseModel ?? message.model,
      ...list,
      reply: failed ? undefined : [messageId(message)],
      personPrompt: persons.length ? persons.map((item) => item.id) : undefined,
      ...this.reportedUsage(message.usage),
      source: "provider",
    });
    if (sent) {
      this.whole = false;
      this.reported = ids;
    }
  }

  private reportedUsage(usage: any): Event {
    const written = count(usage?.cacheWrite);
    const hour = Math.min(count(usage?.cacheWrite1h), written);
    const tokens = { input: count(usage?.input), cacheRead: count(usage?.cacheRead), cacheWrite5m: written - hour, cacheWrite1h: hour };
    const output = count(usage?.output);
    if (!tokens.input && !tokens.cacheRead && !written && !output) return {};
    const priced = usage.cost?.total > 0;
    const cost = priced && {
      inputNano: nano(usage.cost.input) ?? 0,
      cacheReadNano: nano(usage.cost.cacheRead) ?? 0,
      cacheWriteNano: nano(usage.cost.cacheWrite) ?? 0,
      outputNano: nano(usage.cost.output) ?? 0,
      totalNano: nano(usage.cost.total) ?? 0,
    };
    return { usage: { ...tokens, output, reasoning: count(usage.reasoning) || undefined }, cost: cost || undefined };
  }
}
