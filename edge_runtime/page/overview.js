// What the server tells of itself: its state, facts, last updates and history.

import { Charts } from "./charts.js";
import { facts } from "./facts.js";
import { Figures } from "./figures.js";
import { Waterfall } from "./waterfall.js";

const STATES = {
  ok: "Ready",
  loading: "Loading the model",
  closing: "Shutting down",
  lost: "Device lost",
};

export class Overview {
  // `at(id)` finds the places; `locked()` is called where a key is needed to be told more.
  constructor(at, locked) {
    this._at = at;
    this._locked = locked;
    this._told = false;
    this._waterfall = new Waterfall(at("waterfall"), at("no-updates"));
    this._charts = new Charts(at("charts"));
    this._figures = new Figures(
      (told) => this._show(told),
      () => this._state("gone", "Not reachable; trying again"),
    );
  }

  // Ask now, with the key of now.
  look() {
    this._told = false;
    this._figures.look();
  }

  _show({ health, samples, updates, ...since }) {
    const device = health.device ? ` · ${health.device}` : "";
    this._state(health.status, STATES[health.status] + device);
    this._at("facts").replaceChildren(...facts(health));
    this._at("no-figures").hidden = Boolean(samples);
    if (samples) this._charts.add({ samples, ...since });
    if (updates) this._waterfall.show(updates);
    if (health.sessions === undefined && !this._told) this._locked();
    this._told = true; // once is enough
  }

  _state(name, text) {
    const place = this._at("state");
    // the same again would be read aloud again
    if (place.dataset.state === name && place.lastChild.textContent === text) return;
    place.dataset.state = name;
    place.lastChild.textContent = text;
  }
}
