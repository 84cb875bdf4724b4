// A message of pi's window as ctxpipe knows it: an id that stays through resume and fork, a skeleton, a definition.
import { createHash } from "node:crypto";
import { callUnits, chars4, messageTokens, messageUnits } from "./estimate.ts";

export interface Item {
  id: string;
  message: any;
}

const ROLES: Record<string, string> = { user: "user", assistant: "assistant", toolResult: "tool", custom: "custom" };
const role = (message: any): string => ROLES[message.role] ?? "user";

/** pi keeps these in the session and sends them to no model. */
function unsent(message: any): boolean {
  if (message.role === "bashExecution") return message.excludeFromContext === true;
  return message.role === "assistant" && (message.stopReason === "error" || message.stopReason === "aborted");
}

/** What pi writes with a message and reads back as it was. The times of injected messages and summaries are those of their lines. */
function identity(message: any): unknown[] {
  if (message.role === "custom") return [message.customType, message.content];
  if (message.role === "compactionSummary" || message.role === "branchSummary") return [message.summary];
  return [message.timestamp, message.toolCallId, message.responseId, messageUnits(message)];
}

export function messageId(message: any): string {
  return createHash("sha1").update(JSON.stringify([message.role, ...identity(message)])).digest("base64url").slice(0, 16);
}

/** The messages that will be sent, with their ids; the same content twice gets a number. */
export function itemsOf(messages: any[]): Item[] {
  const seen = new Map<string, number>();
  const items: Item[] = [];
  for (const message of messages) {
    if (unsent(message)) continue;
    const id = messageId(message);
    const count = (seen.get(id) ?? 0) + 1;
    seen.set(id, count);
    items.push({ id: count > 1 ? `${id}#${count}` : id, message });
  }
  return items;
}

const blocks = (message: any): any[] => (Array.isArray(message.content) ? message.content : []);
export const callsOf = (message: any): any[] => (message.role === "assistant" ? blocks(message).filter((block) => block.type === "toolCall") : []);

function callRecord(block: any): Record<string, unknown> {
  const { path, content } = block.arguments ?? {};
  return {
    id: String(block.id),
    name: String(block.name),
    path: typeof path === "string" ? path : undefined,
    tokens: chars4(callUnits(block)),
    contentTokens: typeof content === "string" ? chars4(content.length) : undefined,
  };
}

function hasText(message: any): boolean {
  if (typeof message.content === "string") return message.content.trim() !== "";
  if (!Array.isArray(message.content)) return messageUnits(message) > 0;
  return message.content.some((block: any) => block.type === "image" || (block.type === "text" && String(block.text ?? "").trim() !== ""));
}

const thinks = (message: any): boolean => message.role === "assistant" && blocks(message).some((block) => block.type === "thinking");

export function skeleton({ id, message }: Item): Record<string, unknown> {
  const calls = callsOf(message);
  return {
    id,
    role: role(message),
    toolCallId: message.role === "toolResult" ? String(message.toolCallId) : undefined,
    hasText: hasText(message),
    hasThinking: thinks(message) || undefined,
    calls: calls.length ? calls.map(callRecord) : undefined,
    tokens: messageTokens(message),
  };
}

const BANDS: Record<string, string> = {
  user: "user_prompt",
  assistant: "assistant",
  toolResult: "tool_output",
  bashExecution: "tool_output",
};

/** `path` is that of the call which a read answers. */
export function definition({ id, message }: Item, path: string | undefined): Record<string, unknown> {
  const view = message.role === "toolResult" && message.toolName === "read" && path !== undefined;
  const calls = callsOf(message);
  const images = blocks(message).filter((block) => block.type === "image");
  const signatures = blocks(message).reduce((sum, block) => sum + (block.type === "thinking" ? String(block.thinkingSignature ?? "").length : 0), 0);
  return {
    kind: "context_message",
    id,
    role: role(message),
    band: view ? "file_view" : (BANDS[message.role] ?? "history"),
    label: view ? path : undefined,
    tool: message.role === "toolResult" ? String(message.toolName) : message.role === "bashExecution" ? "!bash" : undefined,
    toolCallId: message.role === "toolResult" ? String(message.toolCallId) : undefined,
    calls: calls.length ? calls.map(callRecord) : undefined,
    tokens: messageTokens(message),
    chars: messageUnits(message),
    thinking: thinks(message) ? { signatureUnits: signatures || undefined, tokens: message.usage?.reasoning || undefined } : undefined,
    images: images.length ? images.map((image) => ({ bytes: Math.floor((String(image.data ?? "").length * 3) / 4) })) : undefined,
  };
}
