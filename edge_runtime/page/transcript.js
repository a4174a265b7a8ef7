// What was said so far, on the screen and as text. Nothing of it goes away but by the reader's wish.

export class Transcript {
  // `list` gets recordings with their finals; `live` is the line being spoken.
  constructor(list, live, changed) {
    this._list = list;
    this._live = live;
    this._changed = changed;
    this._recordings = [];
    this._says = { stable: "", unstable: "" };
  }

  get empty() {
    return !this._recordings.some(({ lines }) => lines.length) && !this._open;
  }

  get _open() {
    return this._says.stable + this._says.unstable;
  }

  // What follows comes from here.
  begin(title) {
    const item = document.createElement("li");
    item.className = "recording";
    item.append(element("h3", "", title), element("ol", "finals"));
    this._recordings.push({ title, lines: [], item });
    this._redraw();
  }

  partial(stable, unstable) {
    this._says = { stable, unstable };
    this._redraw();
  }

  final(text, at) {
    this.partial("", "");
    if (text) this._add(text, at);
  }

  // The line being spoken will not be finished: it stays, as it stood.
  keep(at) {
    const open = this._open.trim();
    this.partial("", "");
    if (open) this._add(`${open} …`, at);
  }

  clear() {
    this._recordings.forEach(({ item }) => item.remove());
    this._recordings = [];
    this.partial("", "");
  }

  text() {
    const titled = this._recordings.filter(({ lines }) => lines.length);
    const texts = titled.map(({ title, lines }) =>
      [...(titled.length > 1 ? [title] : []), ...lines.map(({ text }) => text)].join("\n"),
    );
    return [...texts, ...(this._open ? [this._open.trim()] : [])].join("\n\n") + "\n";
  }

  _add(text, at) {
    const recording = this._recordings.at(-1);
    recording.lines.push({ text, at });
    const line = document.createElement("li");
    line.append(element("time", "", clock(at)), element("p", "", text));
    recording.item.querySelector("ol").append(line);
    if (!recording.item.isConnected) this._list.append(recording.item);
    this._redraw();
  }

  _redraw() {
    const { stable, unstable } = this._says;
    const [space] = /^\s*/.exec(unstable); // not to be underlined
    this._live.replaceChildren(
      element("span", "stable", stable + space),
      element("span", "unstable", unstable.slice(space.length)),
    );
    this._live.hidden = !this._open;
    this._changed();
  }
}

function element(name, kind, text = "") {
  const made = document.createElement(name);
  if (kind) made.className = kind;
  made.textContent = text;
  return made;
}

// 75.3 → "1:15"
export function clock(seconds) {
  const whole = Math.max(0, Math.floor(seconds));
  const parts = [Math.floor(whole / 3600), Math.floor(whole / 60) % 60, whole % 60];
  if (!parts[0]) parts.shift();
  return parts.map((part, n) => (n ? String(part).padStart(2, "0") : part)).join(":");
}
