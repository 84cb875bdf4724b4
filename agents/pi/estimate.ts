// Sizes as pi estimates them: four UTF-16 units a token, one rounding a message.

const IMAGE_UNITS = 4800;

export const chars4 = (units: number): number => Math.ceil(units / 4);
export const textTokens = (text: string): number => chars4(text.length);

const json = (value: unknown): string => JSON.stringify(value) ?? "";
export const callUnits = (block: any): number => String(block.name ?? "").length + json(block.arguments).length;

function blockUnits(block: any, assistant: boolean): number {
  if (block?.type === "text") return typeof block.text === "string" ? block.text.length : 0;
  if (block?.type === "image") return assistant ? 0 : IMAGE_UNITS;
  if (assistant && block?.type === "thinking") return typeof block.thinking === "string" ? block.thinking.length : 0;
  if (assistant && block?.type === "toolCall") return callUnits(block);
  return 0;
}

export function contentUnits(content: unknown, assistant = false): number {
  if (typeof content === "string") return content.length;
  return Array.isArray(content) ? content.reduce((sum, block) => sum + blockUnits(block, assistant), 0) : 0;
}

/** Units of one message as pi keeps it. */
export function messageUnits(message: any): number {
  if (message.role === "bashExecution") return String(message.command ?? "").length + String(message.output ?? "").length;
  if (message.role === "compactionSummary" || message.role === "branchSummary") return String(message.summary ?? "").length;
  return contentUnits(message.content, message.role === "assistant");
}

export const messageTokens = (message: any): number => chars4(messageUnits(message));
