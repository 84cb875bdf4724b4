// A tool's result: what ctxpipe is told of it, and what an answer makes of it.

const INPUT = ["command", "path", "content", "pattern", "query", "url", "offset", "limit", "glob", "skill"];

export const textOf = (content: unknown): string =>
  Array.isArray(content)
    ? content
        .filter((block) => block?.type === "text")
        .map((block) => String(block.text ?? ""))
        .join("\n")
    : "";

function exitCode(event: any, text: string): number | undefined {
  if (event.toolName !== "bash") return undefined;
  if (!event.isError) return 0;
  const said = /Command exited with code (-?\d+)\s*$/.exec(text);
  return said ? Number(said[1]) : undefined;
}

/** cut: the text was too long to be sent whole */
export function resultEvent(event: any, turn: number, maxUnits: number): { event: Record<string, unknown>; cut: boolean } {
  const text = textOf(event.content);
  const cut = text.length > maxUnits;
  const input: Record<string, unknown> = {};
  for (const key of INPUT) {
    const value = event.input?.[key];
    const whole = typeof value === "string" ? value.length <= maxUnits : typeof value === "number" || typeof value === "boolean";
    if (whole) input[key] = value;
  }
  const images = Array.isArray(event.content) ? event.content.filter((block: any) => block?.type === "image") : [];
  return {
    cut,
    event: {
      kind: "tool_result",
      turn,
      toolCallId: String(event.toolCallId),
      tool: String(event.toolName),
      input,
      isError: event.isError === true,
      exitCode: exitCode(event, text),
      text: cut ? text.slice(0, maxUnits) : text,
      textUnits: cut ? text.length : undefined,
      images: images.length ? images.map((image: any) => ({ bytes: Math.floor((String(image.data ?? "").length * 3) / 4) })) : undefined,
    },
  };
}

/** Text in the place of the result's text; blocks that are not text stay. undefined: the answer is none that can be applied. */
export function replaced(event: any, replace: any): { content: unknown[]; details: unknown } | undefined {
  if (typeof replace?.text !== "string" || !Array.isArray(event.content)) return undefined;
  const content: unknown[] = [];
  let placed = false;
  for (const block of event.content) {
    if (block?.type !== "text") content.push(block);
    else if (!placed) {
      content.push({ ...block, text: replace.text });
      placed = true;
    }
  }
  if (!placed) return undefined;
  const details: Record<string, unknown> = { ...(event.details ?? {}), ...(replace.details?.add ?? {}) };
  for (const key of Array.isArray(replace.details?.drop) ? replace.details.drop : []) delete details[key];
  return { content, details };
}
