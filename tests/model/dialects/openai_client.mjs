// What an app in JavaScript does: a recording, then live audio. Arguments: URL, FLAC file, file of 24 kHz PCM.
import fs from "node:fs";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const require = createRequire(pathToFileURL(process.env.OPENAI_NODE_MODULES + "/."));
const OpenAI = require("openai").default;
const { OpenAIRealtimeWS } = require("openai/realtime/ws");
const [url, flac, pcm] = process.argv.slice(2);

const client = new OpenAI({ baseURL: `${url}/v1`, apiKey: "none" });
const { text } = await client.audio.transcriptions.create({
  model: "whisper-1",
  file: fs.createReadStream(flac),
});

const socket = await OpenAIRealtimeWS.create(client, { model: "gpt-4o-transcribe" });
const live = await new Promise((resolve, reject) => {
  socket.on("error", reject);
  socket.on("session.created", () =>
    socket.send({
      type: "session.update",
      session: { type: "transcription", audio: { input: { turn_detection: null } } },
    }),
  );
  socket.on("session.updated", () => {
    const audio = fs.readFileSync(pcm);
    for (let at = 0; at < audio.length; at += 48000)
      socket.send({
        type: "input_audio_buffer.append",
        audio: audio.subarray(at, at + 48000).toString("base64"),
      });
    socket.send({ type: "input_audio_buffer.commit" });
  });
  socket.on("conversation.item.input_audio_transcription.completed", (event) =>
    resolve(event.transcript),
  );
});
socket.close();
console.log(JSON.stringify({ text, live }));
