// What was taken out of the window stays out: in every later request, after a resume, and in a fork that begins behind it. Each
// request is then the one before and a tail, whether or not the pipeline answers.
import { callsOf, type Item } from "./messages.ts";

export interface Removed {
  remove: string[]; // message ids
  strip: Record<string, string[]>; // message id: call ids
  content: string[]; // call ids
}

const texts = (value: unknown): string[] => (Array.isArray(value) ? value.filter((one) => typeof one === "string") : []);

export function readRemoved(said: any): Removed {
  const strip: Record<string, string[]> = {};
  for (const [id, calls] of Object.entries(said?.strip ?? {})) if (texts(calls).length) strip[id] = texts(calls);
  return { remove: texts(said?.remove), strip, content: texts(said?.content ?? said?.stripContent) };
}

function stripped(message: any, calls: Set<string>, content: Set<string>): any {
  if (!callsOf(message).some((call) => calls.has(call.id) || (content.has(call.id) && "content" in (call.arguments ?? {})))) return message;
  const kept = message.content.filter((block: any) => block.type !== "toolCall" || !calls.has(block.id));
  return {
    ...message,
    content: kept.map((block: any) => {
      if (block.type !== "toolCall" || !content.has(block.id)) return block;
      const { content: _gone, ...rest } = block.arguments ?? {};
      return { ...block, arguments: rest };
    }),
  };
}

const unanswered = (items: Item[]): Set<string> => {
  const results = new Set(items.filter((item) => item.message.role === "toolResult").map((item) => item.message.toolCallId));
  return new Set(items.flatMap((item) => callsOf(item.message)).map((call) => call.id).filter((id) => !results.has(id)));
};

/** Can this be sent instead? A result has its call and a call its result, as before; something that a person said is left. */
function sound(before: Item[], after: Item[]): boolean {
  const calls = new Set(after.flatMap((item) => callsOf(item.message)).map((call) => call.id));
  const known = new Set(before.flatMap((item) => callsOf(item.message)).map((call) => call.id));
  const open = unanswered(before);
  const orphan = after.some((item) => item.message.role === "toolResult" && known.has(item.message.toolCallId) && !calls.has(item.message.toolCallId));
  const left = [...unanswered(after)].some((id) => !open.has(id));
  return !orphan && !left && after.some((item) => item.message.role !== "assistant");
}

function without(items: Item[], removed: Removed): Item[] {
  const gone = new Set(removed.remove);
  const content = new Set(removed.content);
  const kept: Item[] = [];
  for (const item of items) {
    if (gone.has(item.id)) continue;
    const message = stripped(item.message, new Set(removed.strip[item.id]), content);
    kept.push(message === item.message ? item : { id: item.id, message });
  }
  return kept;
}

export class Removals {
  private readonly all: Removed = { remove: [], strip: {}, content: [] };

  load(said: unknown): void {
    this.add(readRemoved(said));
  }

  /** What it adds to what is known; undefined: nothing */
  add(more: Removed): Removed | undefined {
    const fresh: Removed = {
      remove: more.remove.filter((id) => !this.all.remove.includes(id)),
      strip: {},
      content: more.content.filter((id) => !this.all.content.includes(id)),
    };
    for (const [id, calls] of Object.entries(more.strip)) {
      const known = (this.all.strip[id] ??= []);
      const added = calls.filter((call) => !known.includes(call));
      if (added.length) fresh.strip[id] = added;
      known.push(...added);
    }
    this.all.remove.push(...fresh.remove);
    this.all.content.push(...fresh.content);
    return fresh.remove.length || fresh.content.length || Object.keys(fresh.strip).length ? fresh : undefined;
  }

  /** The request without what is gone. */
  apply(items: Item[]): Item[] {
    const after = without(items, this.all);
    return sound(items, after) ? after : items;
  }
}

/** The request with an answer applied; undefined: it cannot be, and nothing of it is. */
export function applyAnswer(items: Item[], actions: Record<string, unknown>): { items: Item[]; removed: Removed } | undefined {
  const removed = readRemoved(actions);
  const ids = new Set(items.map((item) => item.id));
  if (![...removed.remove, ...Object.keys(removed.strip)].every((id) => ids.has(id))) return undefined;
  const after = without(items, removed);
  return sound(items, after) ? { items: after, removed } : undefined;
}
