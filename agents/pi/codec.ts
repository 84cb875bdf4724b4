// MessagePack as the collector takes it: texts in UTF-8, whole numbers as integers, and nothing that cannot be said.
import type * as MessagePack from "@msgpack/msgpack";

export interface Codec {
  encode(value: unknown): Uint8Array;
  decode(bytes: Uint8Array): unknown;
}

const DEPTH = 24; // the collector takes 32 levels; the event itself has a few

/** What JavaScript has and MessagePack has not: half characters, functions, whole numbers above 32 bits as such. */
function clean(value: unknown, depth: number): unknown {
  switch (typeof value) {
    case "string":
      return value.isWellFormed() ? value : value.toWellFormed();
    case "number":
      return Number.isSafeInteger(value) && Math.abs(value) > 0x7fffffff ? BigInt(value) : value;
    case "boolean":
    case "bigint":
      return value;
    case "object":
      break;
    default:
      return undefined;
  }
  if (value === null || value instanceof Uint8Array) return value;
  if (depth === DEPTH) return null;
  if (Array.isArray(value)) return value.map((item) => clean(item, depth + 1) ?? null);
  const map: Record<string, unknown> = {};
  for (const [key, item] of Object.entries(value)) {
    const cleaned = clean(item, depth + 1);
    if (cleaned !== undefined) map[key.isWellFormed() ? key : key.toWellFormed()] = cleaned;
  }
  return map;
}

export function makeCodec(library: typeof MessagePack): Codec {
  const options = { useBigInt64: true, maxDepth: 64 };
  return {
    encode: (value) => library.encode(clean(value, 0), options),
    decode: (bytes) => library.decode(bytes, options),
  };
}
