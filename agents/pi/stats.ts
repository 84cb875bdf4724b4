// Savings as the fold has them: the line above the editor, the table of /ctx-stats, the snapshot in the session.

const MECHANISMS = ["bash", "amnesia", "lazy", "write"] as const; // in the order in which people read them
const TURNS = 40;

export interface Figures {
  bash: number;
  amnesia: number;
  lazy: number;
  write: number;
  total: number;
}
export interface Snapshot {
  cumulative: Figures;
  turns: (Figures & { turn: number })[];
}

const whole = (value: unknown): number => Number(value ?? 0);
const figures = (said: any): Figures => ({
  bash: whole(said?.bash),
  amnesia: whole(said?.amnesia),
  lazy: whole(said?.lazy),
  write: whole(said?.write),
  total: whole(said?.total),
});

/** 950 as it is, 1250 as 1.3k */
export const short = (tokens: number): string => (tokens < 1000 ? String(tokens) : `${(tokens / 1000).toFixed(1)}k`);

export function line(cumulative: Figures): string {
  return `ctxwm saved ${short(cumulative.total)} tok (${MECHANISMS.map((name) => `${name} ${short(cumulative[name])}`).join(" · ")})`;
}

export class Stats {
  snapshot: Snapshot = { cumulative: figures({}), turns: [] };
  session: any; // the fold's row of this session

  restore(said: any): boolean {
    if (typeof said?.cumulative !== "object" || !Array.isArray(said?.turns)) return false;
    this.snapshot = { cumulative: figures(said.cumulative), turns: said.turns.slice(-TURNS).map((turn: any) => ({ turn: whole(turn.turn), ...figures(turn) })) };
    return true;
  }

  get lastTurn(): number {
    return this.snapshot.turns.at(-1)?.turn ?? 0;
  }

  /** Takes the fold's row; true: it says something new. */
  take(session: any): boolean {
    const last = session?.last;
    this.session = session;
    if (!last || this.snapshot.turns.at(-1)?.turn === whole(last.turn)) return false;
    const { turns } = this.snapshot;
    this.snapshot = { cumulative: figures(session.cumulative), turns: [...turns, { turn: whole(last.turn), ...figures(last) }].slice(-TURNS) };
    return true;
  }

  table(state: string): string {
    const { cumulative, turns } = this.snapshot;
    const last = figures(turns.at(-1));
    const rows = [...MECHANISMS, "total" as const].map((name) => `${name.padEnd(8)} ${short(cumulative[name]).padStart(8)} ${short(last[name]).padStart(8)}`);
    const more = this.session
      ? [`net of model calls and regret ${whole(this.session.net)}, carried through later requests ${whole(this.session.carried)} tokens`]
      : [];
    return [`saved    ${"session".padStart(8)} ${"turn".padStart(8)}`, ...rows, ...more, `turn ${this.lastTurn}; ${state}`].join("\n");
  }
}
