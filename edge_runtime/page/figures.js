// The server's figures: asked for every two seconds, and what grew between two answers.

import { ask } from "./key.js";

const EVERY = 2000; // ms
const LINE = /^(\w+)(?:\{(.*)\})? (\S+)/;
const LABEL = /(\w+)="((?:[^"\\]|\\.)*)"/g;
export const STAGES = ["queue", "encode", "draft", "decode", "emit"];

// Prometheus' text: samples by name, each with labels and value.
export function parse(text) {
  const found = new Map();
  for (const line of text.split("\n")) {
    const [, name, labels = "", value] = LINE.exec(line) ?? [];
    if (!name) continue;
    const pairs = [...labels.matchAll(LABEL)].map(([, label, said]) => [label, said]);
    if (!found.has(name)) found.set(name, []);
    found.get(name).push({ labels: Object.fromEntries(pairs), value: Number(value) });
  }
  return found;
}

export class Figures {
  // `told({health, samples, grown, seconds, updates})`; samples and updates only where this
  // browser may see them.
  // `unreachable()` when nobody answers.
  constructor(told, unreachable) {
    this._told = told;
    this._unreachable = unreachable;
    this._before = null;
    document.addEventListener("visibilitychange", () => document.hidden || this.look());
    this.look();
  }

  async look() {
    clearTimeout(this._timer);
    const turn = (this._turn = {});
    try {
      const health = await (await ask("/healthz")).json();
      // who is told little there is told nothing elsewhere
      const more = health.sessions === undefined ? {} : await this._more();
      const since = this._since(more.samples, performance.now());
      if (turn === this._turn) this._told({ health, ...more, ...since });
    } catch {
      this._before = null;
      if (turn === this._turn) this._unreachable();
    }
    // a page that nobody sees asks for nothing
    if (turn === this._turn && !document.hidden) {
      this._timer = setTimeout(() => this.look(), EVERY);
    }
  }

  async _more() {
    const [metrics, updates] = await Promise.all([ask("/metrics"), ask("/page/updates")]);
    return {
      samples: metrics.ok ? parse(await metrics.text()) : null,
      updates: updates.ok ? (await updates.json()).updates : null,
    };
  }

  // How much a counter grew since the last answer, null where that is not known.
  _since(samples, at) {
    const before = this._before;
    this._before = samples && { samples, at };
    if (!samples || !before || at - before.at > 3 * EVERY) return { grown: () => null, seconds: 0 };
    const grown = (name, labels) => {
      const growth = sum(samples, name, labels) - sum(before.samples, name, labels);
      return growth >= 0 ? growth : null; // below 0: the server is another one
    };
    return { grown, seconds: (at - before.at) / 1000 };
  }
}

// The samples of a name that have these labels, added up.
export function sum(samples, name, labels = {}) {
  const wanted = Object.entries(labels);
  return (samples.get(name) ?? [])
    .filter((sample) => wanted.every(([label, value]) => sample.labels[label] === value))
    .reduce((total, { value }) => total + value, 0);
}
