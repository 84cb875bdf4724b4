// What a person may set: a file beside pi's own settings, and environment variables that go over it.
import { readFileSync, existsSync } from "node:fs";
import { homedir, hostname } from "node:os";
import { join } from "node:path";

export interface Settings {
  endpoint: string; // the collector's ingest
  agent: string; // name of this agent in every figure
  timeoutMs: number; // the longest that pi waits for one answer
  pauseMs: number; // how long nothing is asked after three time-outs in a row
  bufferBytes: number; // what may wait for the collector's acknowledgement
  tools: string[] | undefined; // activate only these tools; undefined: leave them as they are
  widget: boolean;
  foldNode: string; // of the topology: the node that is asked for the savings
  collectorNode: string;
}

const VARIABLES: Record<string, keyof Settings> = {
  CTXPIPE_ENDPOINT: "endpoint",
  CTXPIPE_AGENT: "agent",
  CTXPIPE_TIMEOUT_MS: "timeoutMs",
  CTXPIPE_PAUSE_MS: "pauseMs",
  CTXPIPE_BUFFER_BYTES: "bufferBytes",
  CTXPIPE_TOOLS: "tools",
  CTXPIPE_WIDGET: "widget",
};
const RANGES: Partial<Record<keyof Settings, [number, number]>> = {
  timeoutMs: [1, 600000],
  pauseMs: [0, 86400000],
  bufferBytes: [65536, 1 << 30],
};

function defaults(env: NodeJS.ProcessEnv): Settings {
  const run = env.XDG_RUNTIME_DIR ? join(env.XDG_RUNTIME_DIR, "ctxpipe") : join(homedir(), ".local/state/ctxpipe/run");
  return {
    endpoint: `ipc://${run}/ingest.sock`,
    agent: `pi@${hostname()}`,
    timeoutMs: 2000,
    pauseMs: 30000,
    bufferBytes: 8 << 20,
    tools: undefined,
    widget: true,
    foldNode: "fold",
    collectorNode: "collector",
  };
}

export function settingsFile(env: NodeJS.ProcessEnv): string {
  return join(env.PI_CODING_AGENT_DIR ?? join(homedir(), ".pi/agent"), "ctxpipe.json");
}

function checked(key: keyof Settings, value: unknown, where: string): unknown {
  const range = RANGES[key];
  if (range) {
    if (typeof value !== "number" || !Number.isInteger(value) || value < range[0] || value > range[1])
      throw new Error(`${where}: ${key} must be a whole number from ${range[0]} to ${range[1]}`);
  } else if (key === "tools") {
    if (!Array.isArray(value) || !value.every((name) => typeof name === "string" && name))
      throw new Error(`${where}: tools must be a list of tool names`);
  } else if (key === "widget") {
    if (typeof value !== "boolean") throw new Error(`${where}: widget must be true or false`);
  } else if (typeof value !== "string" || !value || Buffer.byteLength(value) > 200) {
    throw new Error(`${where}: ${key} must be a text of 1 to 200 bytes`);
  }
  return value;
}

function fromVariable(key: keyof Settings, text: string): unknown {
  if (RANGES[key]) return /^\d+$/.test(text) ? Number(text) : text;
  if (key === "tools") return text.split(",").map((name) => name.trim());
  if (key === "widget") return text === "1" || text === "true" ? true : text === "0" || text === "false" ? false : text;
  return text;
}

/** Throws one sentence that names the file or variable, what is wrong, and what would be right. */
export function readSettings(env: NodeJS.ProcessEnv): Settings {
  const settings = defaults(env) as Record<keyof Settings, unknown>;
  const file = settingsFile(env);
  if (existsSync(file)) {
    let said: unknown;
    try {
      said = JSON.parse(readFileSync(file, "utf8"));
    } catch (error) {
      throw new Error(`${file}: is not JSON: ${(error as Error).message}`);
    }
    if (typeof said !== "object" || said === null || Array.isArray(said)) throw new Error(`${file}: must be one JSON object`);
    for (const [key, value] of Object.entries(said)) {
      if (!(key in settings)) throw new Error(`${file}: unknown setting '${key}'; there are ${Object.keys(settings).join(", ")}`);
      settings[key as keyof Settings] = checked(key as keyof Settings, value, file);
    }
  }
  for (const [name, key] of Object.entries(VARIABLES)) {
    const text = env[name];
    if (text !== undefined && text !== "") settings[key] = checked(key, fromVariable(key, text), name);
  }
  if (!/^(ipc|tcp):\/\/.+/.test(settings.endpoint as string))
    throw new Error("endpoint must be ipc://PATH or tcp://HOST:PORT, such as ipc:///run/user/1000/ctxpipe/ingest.sock");
  return settings as unknown as Settings;
}

/** The control socket of a node stands beside the ingest; undefined where the ingest is not a local one. */
export function controlEndpoint(settings: Settings, node: string): string | undefined {
  const path = /^ipc:\/\/(.*)\/[^/]*$/.exec(settings.endpoint)?.[1];
  return path ? `ipc://${path}/${node}.control` : undefined;
}
