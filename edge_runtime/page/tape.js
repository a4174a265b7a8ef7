// Audio that the server may still need: 16-bit samples, numbered from the first on.

export class Tape {
  // Keeps at most `seconds`; the oldest goes first.
  constructor(rate, seconds) {
    this.rate = rate;
    this.first = 0;
    this.end = 0;
    this._most = rate * seconds;
    this._pieces = [];
  }

  push(samples) {
    this._pieces.push(samples);
    this.end += samples.length;
    this.forget(this.end - this._most);
  }

  // Drop whole pieces that lie before `sample`.
  forget(sample) {
    while (this._pieces.length && this.first + this._pieces[0].length <= sample) {
      this.first += this._pieces.shift().length;
    }
  }

  // Samples from `from` on, `most` of them or fewer.
  read(from, most) {
    let at = this.first;
    for (const piece of this._pieces) {
      if (from < at + piece.length) return piece.subarray(from - at, from - at + most);
      at += piece.length;
    }
    return new Int16Array(0);
  }
}

// A recording that is there as a whole: nothing of it is dropped.
export class Recording {
  constructor(rate, samples) {
    this.rate = rate;
    this.first = 0;
    this.end = samples.length;
    this._samples = samples;
  }

  forget() {}

  read(from, most) {
    return this._samples.subarray(from, from + most);
  }
}
