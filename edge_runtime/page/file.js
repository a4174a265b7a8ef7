// A file of any kind that the browser plays, as 16-bit samples at 16 kHz.

import { Trouble } from "./trouble.js";

export const RATE = 16000;
const MOST = 300e6; // bytes: the browser holds all of it decoded

export async function decode(file) {
  if (file.size > MOST) {
    throw new Trouble(
      `${file.name} is too big for a browser (${Math.round(file.size / 1e6)} MB).`,
      "On the server's machine: edge-runtime transcribe FILE.",
    );
  }
  let audio;
  try {
    // decodes and converts to its own rate; unlike other contexts it needs no https
    audio = await new OfflineAudioContext(1, 1, RATE).decodeAudioData(await file.arrayBuffer());
  } catch {
    throw new Trouble(
      `This browser finds no sound in ${file.name} that it can play.`,
      "Choose an audio or video file, such as WAV, MP3, FLAC, Ogg or M4A.",
    );
  }
  return toSixteenBits(audio);
}

function toSixteenBits(audio) {
  const channels = Array.from({ length: audio.numberOfChannels }, (_, n) => audio.getChannelData(n));
  const samples = new Int16Array(audio.length);
  for (let at = 0; at < audio.length; at++) {
    let sum = 0;
    for (const channel of channels) sum += channel[at];
    samples[at] = Math.max(-32768, Math.min(32767, Math.round((sum / channels.length) * 32767)));
  }
  return samples;
}
