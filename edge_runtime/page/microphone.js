// The browser's microphone as pieces of 16-bit samples.

import { Trouble, insecure, ofMicrophone } from "./trouble.js";

// Rates that the server takes; others are converted by the browser.
const RATES = [8000, 11025, 12000, 16000, 22050, 24000, 32000, 44100, 48000, 88200, 96000, 192000];
const USUAL = 16000;

export class Microphone {
  // `heard(samples)` is called with each piece, `ended(trouble)` when the device goes away.
  static async open(heard, ended) {
    if (!window.isSecureContext) throw insecure(location);
    if (!navigator.mediaDevices?.getUserMedia || !window.AudioWorkletNode) {
      throw new Trouble(
        "This browser is too old to record.",
        "Use a current Chrome, Edge, Firefox or Safari.",
      );
    }
    const microphone = new Microphone();
    try {
      await microphone._open(heard, ended);
    } catch (error) {
      await microphone.close();
      throw ofMicrophone(error);
    }
    return microphone;
  }

  async _open(heard, ended) {
    // What cleans up for human ears costs words; only the level is adjusted.
    this._stream = await navigator.mediaDevices.getUserMedia({
      audio: {
        channelCount: 1,
        echoCancellation: false,
        noiseSuppression: false,
        autoGainControl: true,
      },
    });
    this._context = new AudioContext({ latencyHint: "interactive" });
    if (!RATES.includes(this._context.sampleRate)) {
      await this._context.close();
      this._context = new AudioContext({ sampleRate: USUAL });
    }
    this.rate = this._context.sampleRate;
    await this._context.audioWorklet.addModule("/page/capture.js");
    const [track] = this._stream.getAudioTracks();
    track.addEventListener("ended", () =>
      ended(
        new Trouble("The microphone went away.", "Connect it again, or allow it, and start anew."),
      ),
    );
    this._node = new AudioWorkletNode(this._context, "capture", {
      numberOfOutputs: 0,
      channelCount: 1,
      channelCountMode: "explicit",
    });
    this._node.port.onmessage = ({ data }) => heard(data);
    this._source = this._context.createMediaStreamSource(this._stream);
    this._source.connect(this._node);
    await this._context.resume();
    this._stayAwake();
  }

  // A phone that goes to sleep hears nothing; browsers give this up whenever the page is hidden.
  _stayAwake() {
    const ask = async () => {
      if (document.hidden) return;
      this._lock = await navigator.wakeLock?.request("screen").catch(() => null);
      if (this._closed) await this._lock?.release();
    };
    this._awake = ask;
    document.addEventListener("visibilitychange", ask);
    ask();
  }

  async close() {
    this._closed = true;
    document.removeEventListener("visibilitychange", this._awake);
    this._lock?.release().catch(() => null);
    if (this._node) this._node.port.onmessage = null;
    this._source?.disconnect();
    this._stream?.getTracks().forEach((track) => track.stop());
    if (this._context && this._context.state !== "closed") await this._context.close();
  }
}
