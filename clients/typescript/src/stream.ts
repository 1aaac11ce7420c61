/** One frame of a stream of server-sent events. */
export interface Frame {
  id: string | null;
  event: string;
  data: string;
}

/** The frames of an answer, as they come in; what is cut off at the end is left out. */
export async function* frames(answer: Response): AsyncGenerator<Frame, void, undefined> {
  if (answer.body === null) return;
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let held = "";
  let frame = blank();
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      const lines = (held + value).split("\n");
      held = lines.pop() ?? "";
      for (const line of lines) {
        const text = line.endsWith("\r") ? line.slice(0, -1) : line;
        if (text !== "") {
          take(frame, text);
          continue;
        }
        if (frame.data !== "") yield { ...frame, data: frame.data.slice(0, -1) };
        frame = blank();
      }
    }
  } finally {
    await reader.cancel().catch(() => undefined);
  }
}

function blank(): Frame {
  return { id: null, event: "message", data: "" };
}

/** Take one line into a frame. Lines that begin with a colon are there to keep the connection open. */
function take(frame: Frame, line: string): void {
  const colon = line.indexOf(":");
  if (colon === 0) return;
  const name = colon < 0 ? line : line.slice(0, colon);
  const value = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
  if (name === "data") frame.data += `${value}\n`;
  else if (name === "event") frame.event = value;
  else if (name === "id") frame.id = value;
}
