// The microphone's samples, on the audio thread: 16 bits each, some 20 ms at a time.

class Capture extends AudioWorkletProcessor {
  constructor() {
    super();
    this._size = 128 * Math.max(1, Math.round((sampleRate * 0.02) / 128));
    this._piece = new Int16Array(this._size);
    this._filled = 0;
  }

  process([channels]) {
    const [samples] = channels;
    if (!samples) return true; // not connected at this moment
    for (const sample of samples) {
      this._piece[this._filled++] = Math.max(-32768, Math.min(32767, Math.round(sample * 32767)));
      if (this._filled === this._size) {
        this.port.postMessage(this._piece, [this._piece.buffer]);
        this._piece = new Int16Array(this._size);
        this._filled = 0;
      }
    }
    return true;
  }
}

registerProcessor("capture", Capture);
