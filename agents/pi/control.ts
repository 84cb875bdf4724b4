// Questions to a node's control socket: one MessagePack map each way, a socket for each question.
import type * as Zmq from "zeromq";
import type { Codec } from "./codec.ts";

/** Throws a sentence: no reply in time, or what the node said. */
export async function control(zmq: typeof Zmq, codec: Codec, endpoint: string, request: Record<string, unknown>, timeoutMs: number): Promise<any> {
  const socket = new zmq.Dealer({ linger: 0, immediate: true, sendTimeout: timeoutMs, receiveTimeout: timeoutMs });
  try {
    socket.connect(endpoint);
    await socket.send([Buffer.alloc(0), codec.encode(request)]);
    const frames = await socket.receive();
    const reply = codec.decode(frames[frames.length - 1]) as { ok?: boolean; data?: unknown; error?: string };
    if (!reply?.ok) throw new Error(String(reply?.error ?? "a reply that is none"));
    return reply.data;
  } finally {
    socket.close();
  }
}
