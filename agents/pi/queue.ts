// What was not acknowledged yet, bounded: it goes out again after a reconnect.

export interface Entry {
  seq: number;
  body: Uint8Array;
}

export class Queue {
  private entries: Entry[] = [];
  private sent = 0; // entries before it are in flight
  private last = 0; // last number given
  private held = 0;
  constructor(private readonly maxBytes: number) {}

  get length(): number {
    return this.entries.length;
  }
  get bytes(): number {
    return this.held;
  }
  get inFlight(): number {
    return this.sent;
  }
  get lastNumber(): number {
    return this.last;
  }

  private static weight(entry: Entry): number {
    return entry.body.length + 64;
  }

  /** undefined: there is no room */
  add(body: Uint8Array): Entry | undefined {
    const entry = { seq: this.last + 1, body };
    if (this.held + Queue.weight(entry) > this.maxBytes) return undefined;
    this.last = entry.seq;
    this.entries.push(entry);
    this.held += Queue.weight(entry);
    return entry;
  }

  /** acknowledged up to there */
  drop(seq: number): void {
    let count = 0;
    while (count < this.entries.length && this.entries[count].seq <= seq) this.held -= Queue.weight(this.entries[count++]);
    this.entries.splice(0, count);
    this.sent = Math.max(0, this.sent - count);
  }

  /** what waits gets the numbers behind `position` */
  renumber(position: number): void {
    this.last = position;
    for (const entry of this.entries) entry.seq = ++this.last;
  }

  /** what is in flight goes out again */
  rewind(): void {
    this.sent = 0;
  }

  /** The next message: what may be in flight beside what is. `prev` is the number before its first. */
  next(base: number, window: number, windowBytes: number): { prev: number; entries: Entry[] } | undefined {
    let flight = 0;
    for (let i = 0; i < this.sent; i++) flight += this.entries[i].body.length;
    const from = this.sent;
    let bytes = 0;
    while (this.sent < this.entries.length && this.sent < window && this.sent - from < 512) {
      const size = this.entries[this.sent].body.length;
      const alone = this.sent === 0;
      if (!alone && (flight + bytes + size > windowBytes || (this.sent > from && bytes + size > 65536))) break;
      bytes += size;
      this.sent++;
    }
    if (this.sent === from) return undefined;
    return { prev: from ? this.entries[from - 1].seq : base, entries: this.entries.slice(from, this.sent) };
  }
}
