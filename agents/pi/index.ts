// ctxpipe for pi: tells the collector what happens in a session, asks what could be kept out of the window, and does it.
//
// pi waits for a handler as long as it takes, so no handler here waits longer than the configured time, and none throws: without
// the collector, without the modules, with a bad setting pi goes on as if this were not loaded.
import { existsSync } from "node:fs";
import type * as Zmq from "zeromq";
import { Client } from "./client.ts";
import { makeCodec, type Codec } from "./codec.ts";
import { control } from "./control.ts";
import { clientKey, Session } from "./session.ts";
import { controlEndpoint, readSettings, type Settings } from "./settings.ts";
import { line, Stats } from "./stats.ts";

const STATS_ENTRY = "ctxpipe-stats";
const WIDGET = "ctxpipe";
const AWAY_MS = 500; // that start and end wait for a collector that is not there
const FIGURES_MS = 200; // that the end of a turn waits for those of the turn before

interface Modules {
  zmq: typeof Zmq;
  codec: Codec;
}

async function loadModules(): Promise<Modules> {
  const zmq: any = await import("zeromq");
  const messagePack: any = await import("@msgpack/msgpack");
  return { zmq: zmq.Dealer ? zmq : zmq.default, codec: makeCodec(messagePack.encode ? messagePack : messagePack.default) };
}

const within = <T>(work: Promise<T>, ms: number): Promise<T | undefined> => {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<undefined>((resolve) => (timer = setTimeout(() => resolve(undefined), ms)));
  return Promise.race([work, late]).finally(() => clearTimeout(timer));
};

/** Somebody has bound it; of another machine nobody knows. */
const isThere = (endpoint: string): boolean => !endpoint.startsWith("ipc://") || existsSync(endpoint.slice(6));

class Extension {
  private settings: Settings | undefined;
  private modules: Modules | undefined;
  private session: Session | undefined;
  private id = "";
  private stats = new Stats();
  private why = "not started"; // nothing is sent, and why
  private fault = "";
  private refreshing: Promise<void> = Promise.resolve();
  private refreshes = 0;
  private slow = false; // the figures did not come
  private saved = "";

  constructor(private readonly pi: any) {}

  private say(ctx: any, sentence: string): void {
    this.why = sentence;
    try {
      if (ctx.hasUI) ctx.ui.notify(`ctxpipe: ${sentence}`, "warning");
      else console.error(`ctxpipe: ${sentence}`);
    } catch {
      // a context that is of the past
    }
  }

  /** A handler that never fails. */
  guard<E, R>(handler: (event: E, ctx: any) => R | Promise<R>): (event: E, ctx: any) => Promise<R | undefined> {
    return async (event, ctx) => {
      try {
        return await handler.call(this, event, ctx);
      } catch (error) {
        this.fault = String((error as Error)?.message ?? error);
        return undefined;
      }
    };
  }

  // ---- a session begins and ends ----
  async start(ctx: any): Promise<void> {
    try {
      this.settings = readSettings(process.env);
    } catch (error) {
      return this.say(ctx, `off: ${(error as Error).message}`);
    }
    const settings = this.settings;
    if (settings.tools) this.pi.setActiveTools(settings.tools);
    this.id = String(ctx.sessionManager.getSessionId());
    this.session = new Session(this.pi, this.id, settings);
    this.session.loadRemovals(ctx);
    const known = this.restore(ctx);
    this.session.countTurns(ctx);
    try {
      this.modules = await loadModules();
      this.session.client = this.connect(ctx, this.modules, settings);
    } catch (error) {
      return this.say(ctx, `off: ${(error as Error).message}; is it installed (npm install in the extension's folder)?`);
    }
    this.session.tellLost(ctx);
    this.session.start(ctx, this.stats, known);
    if (isThere(settings.endpoint)) await this.session.client.ready(Math.min(settings.timeoutMs, AWAY_MS));
    this.why = "";
    this.show(ctx);
  }

  private connect(ctx: any, { zmq, codec }: Modules, settings: Settings): Client {
    const client = new Client(zmq, codec, {
      endpoint: settings.endpoint,
      key: clientKey(this.id),
      agent: settings.agent,
      product: "pi",
      bufferBytes: settings.bufferBytes,
      pauseMs: settings.pauseMs,
      onEnd: (sentence) => this.say(ctx, sentence),
    });
    client.start();
    return client;
  }

  private restore(ctx: any): boolean {
    const entries = ctx.sessionManager.getBranch().filter((entry: any) => entry.type === "custom" && entry.customType === STATS_ENTRY);
    return entries.length > 0 && this.stats.restore(entries.at(-1).data);
  }

  async shutdown(reason: string): Promise<void> {
    const { session, settings } = this;
    if (!session?.client || !settings) return;
    await within(this.refreshing, settings.timeoutMs);
    this.persist();
    session.end(reason);
    await session.client.flush(session.client.state === "open" ? settings.timeoutMs : Math.min(settings.timeoutMs, AWAY_MS));
    session.keepLost();
    session.client.close();
    session.client = undefined;
  }

  // ---- figures ----
  /** Asks the fold once everything that was sent is in it; one at a time, and the newest wish stands for those that wait. */
  refresh(ctx: any): Promise<void> {
    const mine = ++this.refreshes;
    this.refreshing = this.refreshing.then(async () => {
      if (mine < this.refreshes) return;
      try {
        if (this.stats.take(await this.query())) this.show(ctx);
        this.slow = false;
      } catch (error) {
        this.slow = true;
        this.fault = String((error as Error)?.message ?? error);
      }
    });
    return this.refreshing;
  }

  private async query(): Promise<any> {
    const { settings, modules, session } = this;
    if (!settings || !modules || !session?.client) return undefined;
    const fold = controlEndpoint(settings, settings.foldNode);
    const collector = controlEndpoint(settings, settings.collectorNode);
    if (!fold || !collector) throw new Error("figures come from a local pipeline only");
    if (session.client.state !== "open") throw new Error("no collector");
    const call = (endpoint: string, request: Record<string, unknown>) => control(modules.zmq, modules.codec, endpoint, request, settings.timeoutMs);
    if (!(await session.client.flush(settings.timeoutMs))) throw new Error("the collector does not acknowledge");
    const status = await call(collector, { op: "status" });
    await call(fold, { op: "wait", cause: status.head });
    const stats = await call(fold, { op: "query", query: { what: "stats", agent: settings.agent, session: this.id } });
    return stats?.sessions?.[0];
  }

  private show(ctx: any): void {
    if (!this.settings?.widget || !ctx.hasUI) return;
    ctx.ui.setWidget(WIDGET, [line(this.stats.snapshot.cumulative)]);
  }

  /** The snapshot goes into the session, where a later start finds it. */
  private persist(): void {
    const data = this.stats.snapshot;
    const text = JSON.stringify(data);
    if (!data.turns.length || text === this.saved) return;
    this.saved = text;
    this.pi.appendEntry(STATS_ENTRY, data);
  }

  async tell(ctx: any): Promise<void> {
    await within(this.refresh(ctx), (this.settings?.timeoutMs ?? 0) + 1);
    const client = this.session?.client;
    const state = !client
      ? this.why
      : client.state !== "open"
        ? `no collector at ${this.settings?.endpoint}; ${client.pending} events wait`
        : `${client.counts.sent} events, ${client.counts.asked} asked, ${client.counts.timeouts} not answered in time` +
          (client.counts.refused ? `, ${client.counts.refused} refused (${client.lastRefused})` : "");
    ctx.ui.notify(this.stats.table(this.fault ? `${state}; last fault: ${this.fault}` : state), "info");
  }

  // ---- events of pi ----
  register(): void {
    const { pi } = this;
    const on = (name: string, handler: (event: any, ctx: any) => unknown) => pi.on(name, this.guard(handler));
    on("session_start", (_event, ctx) => this.start(ctx));
    on("session_shutdown", (event) => this.shutdown(String(event.reason ?? "quit")));
    on("before_agent_start", () => this.session?.agentStart());
    on("turn_start", () => this.session?.turnStart());
    on("tool_result", (event, ctx) => this.session?.result(event, ctx.signal));
    on("context", async (event, ctx) => {
      const messages = await this.session?.context(event.messages, ctx.model?.id, ctx.signal);
      return messages && { messages };
    });
    on("message_end", (event) => {
      if (event.message?.role === "assistant") this.session?.reply(event.message);
    });
    on("turn_end", async (_event, ctx) => {
      if (!this.slow) await within(this.refreshing, Math.min(FIGURES_MS, this.settings?.timeoutMs ?? 0)); // each turn has its figures
      this.session?.turnEnd();
      void this.refresh(ctx);
    });
    on("agent_end", async () => {
      this.session?.agentEnd();
      await within(this.refreshing, this.settings?.timeoutMs ?? 0);
      this.persist();
    });
    on("session_compact", (event, ctx) => this.session?.compaction(event.compactionEntry ?? {}, ctx.model?.id));
    on("session_tree", (event, ctx) => {
      this.session?.loadRemovals(ctx);
      this.session?.side(event.summaryEntry, ctx.model?.id);
    });
    pi.registerCommand("ctx-stats", {
      description: "What ctxpipe has kept out of the context window",
      handler: async (_args: string, ctx: any) => this.guard((_event, context) => this.tell(context))(undefined, ctx),
    });
  }
}

export default function (pi: any): void {
  new Extension(pi).register();
}
