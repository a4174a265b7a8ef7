// One session of the native protocol: comes back after a lost connection, and loses no audio that is kept.

import { ask, protocols } from "./key.js";
import { Trouble } from "./trouble.js";

const WAITING = 1 << 19; // bytes on the way to the server: 16 s at 16 kHz
const PIECE = 16000; // samples of a message
const WAITS = [0.25, 0.5, 1, 1, 2, 2, 4, 8]; // s between attempts
const TRANSIENT = new Set(["not_ready", "full", "too_many_sessions", "too_often"]);

export class Session {
  // `tape` is a Tape or a Recording; `on` has event(event, seconds), state(name, trouble), over(trouble).
  // States: "connecting", "open", "waiting". Times are seconds of the tape: `seconds(time of the session)`.
  constructor(tape, partials, on) {
    this._tape = tape;
    this._partials = partials;
    this._on = on;
    this._origin = 0; // sample of the tape where the server's count begins
    this._sent = 0; // next sample to send
    this._done = 0; // up to here the text is final
    this._token = "";
    this._session = null;
    this._seq = 0;
    this._attempt = 0;
    this._ended = this._over = this._stopped = false;
    this._retry = () => this._connect();
    addEventListener("online", this._retry);
    this._connect();
  }

  // Samples that wait to be sent.
  get behind() {
    return this._tape.end - Math.max(this._sent, this._tape.first);
  }

  // There is more on the tape.
  pump() {
    clearTimeout(this._later);
    if (!this._ready) return;
    const tape = this._tape;
    if (this._sent < tape.first) {
      // dropped before it could be sent: the session's own count knows nothing of it
      const skipped = tape.first - this._sent;
      this._origin += skipped;
      this._sent = tape.first;
      this._on.skipped(skipped / tape.rate);
    }
    while (this._sent < tape.end && this._socket.bufferedAmount < WAITING) {
      const piece = tape.read(this._sent, PIECE);
      this._socket.send(piece);
      this._sent += piece.length;
    }
    if (this._sent < tape.end) this._later = setTimeout(() => this.pump(), 50);
    else if (this._ended && !this._stopped) {
      this._stopped = true;
      this._socket.send('{"type":"stop"}');
    }
  }

  // Nothing more will come: the last finals, then `over`.
  end() {
    this._ended = true;
    this.pump();
  }

  // Let go now, whatever is on its way.
  abandon() {
    if (this._socket?.readyState === WebSocket.OPEN && !this._stopped) {
      this._socket.send('{"type":"stop"}');
    }
    this._finish(null);
  }

  _connect() {
    if (this._over || this._socket) return;
    clearTimeout(this._timer);
    this._on.state("connecting");
    const scheme = location.protocol === "https:" ? "wss:" : "ws:";
    const socket = new WebSocket(`${scheme}//${location.host}/v1/stream`, protocols());
    this._socket = socket;
    this._ready = this._opened = this._stopped = false;
    this._trouble = null;
    socket.onopen = () => {
      this._opened = true;
      const resume = { token: this._token, last_seq: this._seq };
      const format = { encoding: "pcm_s16le", sample_rate: this._tape.rate };
      socket.send(JSON.stringify({ type: "start", ...format, partials: this._partials, resume }));
    };
    socket.onmessage = ({ data }) => this._over || this._take(JSON.parse(data));
    socket.onclose = ({ code }) => this._over || this._lost(code);
  }

  _take(event) {
    if (event.type !== "error") this._seq = event.seq;
    if (event.type === "ready") this._greet(event);
    else if (event.type === "error") this._trouble = event;
    else if (event.type === "closed" && event.reason !== "shutdown") this._finish(null);
    else if (event.type === "closed") this._token = "";
    if (event.type === "final") {
      this._done = this._origin + Math.round(event.end * this._tape.rate);
      this._tape.forget(this._done);
    }
    this._on.event(event, (time) => this._origin / this._tape.rate + time);
    this.pump();
  }

  _greet(ready) {
    if (ready.session !== this._session) {
      // another session: what has no final yet is said to it once more
      this._origin = Math.max(this._tape.first, this._done);
      this._session = ready.session;
    }
    this._token = ready.resume; // each is good once
    this._sent = this._origin + ready.next_sample;
    this._attempt = 0;
    this._ready = true;
    this._on.state("open");
  }

  async _lost(code) {
    const error = this._trouble;
    this._socket = null;
    this._ready = false;
    if (error?.code === "resume_gone") {
      this._token = "";
      this._seq = 0;
      this._connect();
      return;
    }
    if (error && !TRANSIENT.has(error.code)) {
      this._finish(new Trouble(sentence(error.message), error.fix, error.code));
      return;
    }
    if (!this._token) this._seq = 0;
    const why = error ?? (this._opened ? null : await refusal());
    if (this._over || this._socket) return;
    if (why && !TRANSIENT.has(why.code)) {
      this._finish(new Trouble(sentence(why.message), why.fix, why.code));
      return;
    }
    const wait = why?.wait ?? WAITS[Math.min(this._attempt++, WAITS.length - 1)];
    this._timer = setTimeout(this._retry, wait * 1000 * (0.8 + 0.4 * Math.random()));
    const again = why && `${why.fix} The page tries by itself.`;
    this._on.state("waiting", why ? new Trouble(sentence(why.message), again, why.code) : lost(code));
  }

  _finish(trouble) {
    if (this._over) return;
    this._over = true;
    this._ready = false;
    clearTimeout(this._timer);
    clearTimeout(this._later);
    removeEventListener("online", this._retry);
    this._socket?.close();
    this._on.over(trouble);
  }
}

// Why the server takes no WebSocket: browsers do not tell, so it is asked again without one.
async function refusal() {
  try {
    const answer = await ask("/v1/stream");
    if (![401, 403, 429].includes(answer.status)) return null;
    const wait = Number(answer.headers.get("Retry-After")) || undefined;
    return { ...(await answer.json()), wait };
  } catch {
    return null; // nobody there
  }
}

function lost(code) {
  const fix = "Nothing to do: the page connects again by itself, and speech of the last 30 s is kept.";
  return new Trouble(
    code === 1001 ? "The server shut down." : "The connection to the server is lost.",
    fix,
  );
}

const sentence = (text) => `${text[0].toUpperCase()}${text.slice(1)}.`.replace(/\.\.$/, ".");
