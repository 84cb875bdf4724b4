// A client of the collector: one DEALER, one receiving loop, one queue of sends, and nothing that pi could wait for without end.
//
// The protocol is that of common/bus/ingest.h. The collector greets a connection that it does not know; the client says hello; the
// collector welcomes it with the position of its key; the client goes on from there. Every way in which a connection or a collector
// can die ends at that greeting, or at the silence after which the client says hello by itself.
import { randomBytes } from "node:crypto";
import type * as Zmq from "zeromq";
import type { Codec } from "./codec.ts";
import { Queue } from "./queue.ts";

const PROTOCOL = 1;
const SILENCE_MS = 1000;
const SILENCE_MAX_MS = 30000;
const TICK_MS = 200;
const OUTCOMES = 16; // that hello says again
const TIMEOUTS_IN_A_ROW = 3;
const HIGH_WATER = 8192; // twice the window, or acknowledgements would be dropped

export type Outcome = "applied" | "timeout" | "lost" | "superseded" | "refused";
export type Actions = Record<string, unknown>;
export interface Answer {
  actions: Actions; // empty: unchanged
  tell(outcome: "applied" | "refused"): void; // of an answer with actions
}
export interface ClientOptions {
  endpoint: string;
  key: string;
  agent: string;
  product: string;
  bufferBytes: number;
  pauseMs: number;
  onEnd(sentence: string): void; // nothing can be sent any more
}
interface Ask {
  settle(actions: Actions | undefined): void;
}

const number = (value: unknown): number => (typeof value === "bigint" ? Number(value) : typeof value === "number" ? value : NaN);
const random64 = (): bigint => randomBytes(8).readBigUInt64BE() | 1n;

export class Client {
  state: "connecting" | "greeting" | "open" | "dead" = "connecting";
  readonly counts = { sent: 0, acked: 0, refused: 0, dropped: 0, droppedBytes: 0, asked: 0, answered: 0, timeouts: 0, garbage: 0 };
  lastRefused = "";
  private readonly queue: Queue;
  private readonly asks = new Map<number, Ask>();
  private readonly outcomes = new Map<number, Outcome>(); // of the last answers, oldest first
  private readonly watchers = new Set<() => void>();
  private sends: Promise<void> = Promise.resolve();
  private timer: NodeJS.Timeout | undefined;
  private socket: Zmq.Dealer | undefined;
  private nonce = 0n;
  private stream = 0n; // of the last welcome; 0: none yet
  private instance = 0n;
  private base = 0; // last number acknowledged
  private limits = { window: 4096, windowBytes: 4 << 20, maxEventBytes: 16 << 20 };
  private heard = Date.now();
  private silence = SILENCE_MS;
  private timeoutsInARow = 0;
  private pausedUntil = 0;

  constructor(
    private readonly zmq: typeof Zmq,
    private readonly codec: Codec,
    private readonly options: ClientOptions,
  ) {
    this.queue = new Queue(options.bufferBytes);
  }

  start(): void {
    const socket = new this.zmq.Dealer({
      linger: 0,
      immediate: true, // nothing is queued for a connection that does not exist
      probeRouter: true, // a new connection shows at the collector
      sendTimeout: 0,
      sendHighWaterMark: HIGH_WATER,
      receiveHighWaterMark: HIGH_WATER,
      reconnectInterval: 20,
      reconnectMaxInterval: 1000,
    });
    this.socket = socket;
    socket.connect(this.options.endpoint);
    void this.receive(socket);
    this.timer = setInterval(() => this.tick(), TICK_MS);
    this.timer.unref();
  }

  close(): void {
    this.state = "dead";
    clearInterval(this.timer);
    for (const ask of [...this.asks.values()]) ask.settle(undefined);
    this.socket?.close();
    this.socket = undefined;
    this.notify();
  }

  // ---- sending ----
  get maxEventBytes(): number {
    return Math.min(this.limits.maxEventBytes, this.options.bufferBytes >> 1);
  }

  get pending(): number {
    return this.queue.length;
  }

  /** Queues an event; false: there was no room, or no use. */
  send(event: Record<string, unknown>): boolean {
    return this.enqueue(event) !== undefined;
  }

  private enqueue(event: Record<string, unknown>): number | undefined {
    const body = this.state === "dead" ? undefined : this.codec.encode(event);
    const entry = body && body.length <= this.maxEventBytes ? this.queue.add(body) : undefined;
    if (!entry) {
      this.counts.dropped++;
      this.counts.droppedBytes += body?.length ?? 0;
      return undefined;
    }
    this.counts.sent++;
    this.push();
    return entry.seq;
  }

  private push(): void {
    while (this.state === "open") {
      const message = this.queue.next(this.base, this.limits.window, this.limits.windowBytes);
      if (!message) return;
      this.write(["events", message.prev, message.entries.map((entry) => [entry.seq, entry.body])]);
    }
  }

  private write(parts: unknown[]): void {
    const frame = this.codec.encode([PROTOCOL, ...parts]);
    this.sends = this.sends.then(async () => {
      try {
        await this.socket?.send(frame);
      } catch {
        if (this.state === "open") this.state = "greeting"; // what was not sent goes out after the next welcome
      }
    });
  }

  private hello(): void {
    this.state = "greeting";
    this.nonce = random64();
    this.heard = Date.now();
    const said = { client: "ctxpipe-pi 0.1.0", key: this.options.key, agent: this.options.agent, product: this.options.product };
    this.write(["hello", { ...said, nonce: this.nonce, stream: this.stream, base: this.base, outcomes: [...this.outcomes] }]);
  }

  // ---- asking ----
  /** Would an ask be answered? False while there is no connection, and for a while after time-outs. */
  get mayAsk(): boolean {
    return this.state === "open" && Date.now() >= this.pausedUntil;
  }

  /** Sends an event that asks. undefined: no answer in time; what the agent has stays as it is. */
  ask(event: Record<string, unknown>, timeoutMs: number, signal: AbortSignal | undefined): Promise<Answer | undefined> {
    const seq = this.enqueue(event);
    if (seq === undefined || signal?.aborted) {
      if (seq !== undefined) this.tell(seq, "timeout");
      return Promise.resolve(undefined);
    }
    this.counts.asked++;
    return new Promise((resolve) => {
      const late = () => this.asks.get(seq)?.settle(undefined);
      const timer = setTimeout(() => {
        this.timedOut();
        late();
      }, timeoutMs);
      signal?.addEventListener("abort", late, { once: true });
      const settle = (actions: Actions | undefined) => {
        clearTimeout(timer);
        signal?.removeEventListener("abort", late);
        this.asks.delete(seq);
        if (!actions) this.tell(seq, "timeout");
        resolve(actions && { actions, tell: (outcome) => this.tell(seq, outcome) });
      };
      this.asks.set(seq, { settle });
    });
  }

  private timedOut(): void {
    this.counts.timeouts++;
    if (++this.timeoutsInARow >= TIMEOUTS_IN_A_ROW) this.pausedUntil = Date.now() + this.options.pauseMs;
  }

  private tell(seq: number, outcome: Outcome): void {
    this.outcomes.delete(seq);
    this.outcomes.set(seq, outcome);
    if (this.outcomes.size > OUTCOMES) this.outcomes.delete(this.outcomes.keys().next().value as number);
    if (this.state === "open") this.write(["outcomes", [[seq, outcome]]]);
  }

  // ---- receiving ----
  private async receive(socket: Zmq.Dealer): Promise<void> {
    while (this.socket === socket) {
      try {
        const frames = await socket.receive();
        this.message(frames[frames.length - 1]);
      } catch {
        if (this.socket !== socket || socket.closed) return; // closed while it waited
        this.counts.garbage++;
      }
    }
  }

  /** Whatever is not a message of the collector is counted and passed over. */
  private message(bytes: Uint8Array): void {
    if (bytes.length === 0) return;
    const message = this.codec.decode(bytes);
    if (!Array.isArray(message) || message[0] !== PROTOCOL || typeof message[1] !== "string") {
      this.counts.garbage++;
      return;
    }
    this.heard = Date.now();
    this.silence = SILENCE_MS;
    const [, op, first, second, third] = message;
    if (op === "greet") this.hello();
    else if (op === "welcome") this.welcome(first);
    else if (op === "ack") this.acknowledged(number(first), BigInt(second));
    else if (op === "answer") this.answered(number(first), BigInt(second), third);
    else if (op === "refused") this.refused(first);
    else if (op === "superseded") this.end("another client uses this one's key; nothing is sent any more in this session");
    this.push();
    this.notify();
  }

  private welcome(said: Record<string, unknown>): void {
    if (BigInt(said.nonce as bigint) !== this.nonce) return;
    const position = number(said.position);
    const limits = { window: number(said.window), windowBytes: number(said.windowBytes), maxEventBytes: number(said.maxEventBytes) };
    if (!(position >= 0) || !(limits.window > 0) || !(limits.windowBytes > 0) || !(limits.maxEventBytes > 0)) throw new Error("a welcome without a limit");
    if (this.stream === 0n) this.queue.renumber(position);
    else if (position > this.queue.lastNumber) return this.end("another client has used this one's key; nothing is sent any more in this session");
    this.stream = BigInt(said.stream as bigint);
    this.instance = BigInt(said.instance as bigint);
    this.limits = limits;
    this.base = position;
    this.queue.drop(position);
    this.queue.rewind();
    this.state = "open";
  }

  private acknowledged(seq: number, instance: bigint): void {
    if (this.state !== "open" || instance !== this.instance || !(seq <= this.queue.lastNumber)) return;
    if (seq > this.base) {
      this.counts.acked += seq - this.base;
      this.base = seq;
      this.queue.drop(seq);
    }
  }

  private answered(seq: number, instance: bigint, actions: unknown): void {
    if (this.state !== "open" || instance !== this.instance || typeof actions !== "object" || actions === null) return;
    const changed = !(actions as Actions).unchanged;
    const ask = this.asks.get(seq);
    if (!ask) {
      if (changed) this.tell(seq, this.outcomes.get(seq) ?? "timeout"); // nobody waits for it any more
      return;
    }
    this.timeoutsInARow = 0;
    this.counts.answered++;
    ask.settle(changed ? (actions as Actions) : {});
  }

  private refused(said: Record<string, unknown>): void {
    const seq = number(said.seq);
    if (seq === 0) return this.end(`refused by the collector: ${said.field} ${said.reason}`);
    this.counts.refused++;
    this.lastRefused = `${said.kind}: ${said.field} ${said.reason}`;
    this.asks.get(seq)?.settle(undefined);
  }

  private end(sentence: string): void {
    this.close();
    this.options.onEnd(sentence);
  }

  private tick(): void {
    const waiting = this.state === "greeting" || this.queue.inFlight > 0 || this.asks.size > 0;
    if (this.state === "connecting" || !waiting || Date.now() - this.heard <= this.silence) return;
    this.silence = Math.min(this.silence * 2, SILENCE_MAX_MS);
    this.hello();
  }

  // ---- waiting ----
  private notify(): void {
    for (const watcher of [...this.watchers]) watcher();
  }

  private until(done: () => boolean, timeoutMs: number): Promise<boolean> {
    if (done()) return Promise.resolve(true);
    return new Promise((resolve) => {
      const finish = (result: boolean) => {
        clearTimeout(timer);
        this.watchers.delete(look);
        resolve(result);
      };
      const look = () => {
        if (done() || this.state === "dead") finish(done());
      };
      const timer = setTimeout(() => finish(done()), timeoutMs);
      this.watchers.add(look);
    });
  }

  ready(timeoutMs: number): Promise<boolean> {
    return this.until(() => this.state === "open", timeoutMs);
  }

  /** Until everything is acknowledged, and what was said of answers has left. */
  async flush(timeoutMs: number): Promise<boolean> {
    const done = await this.until(() => this.queue.length === 0, timeoutMs);
    await this.sends;
    return done;
  }
}
