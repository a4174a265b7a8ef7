// The last updates, one bar each: how long it waited, was encoded, checked, decoded and sent.

import { STAGES } from "./figures.js";

const SHOWN = 8;
const NAMES = { partial: "partial", final: "final", speculative: "early final" };

export class Waterfall {
  constructor(list, empty) {
    this._list = list;
    this._empty = empty;
    this._newest = 0;
  }

  show(updates) {
    const last = updates.slice(-SHOWN);
    this._empty.hidden = last.length > 0;
    this._list.hidden = !last.length;
    const newest = last.at(-1)?.number ?? 0;
    const told = JSON.stringify(last);
    if (told === this._told) return;
    this._told = told;
    const longest = Math.max(...last.map(total), 0.001);
    this._list.replaceChildren(
      ...last.reverse().map((update) => this._row(update, longest, update.number > this._newest)),
    );
    this._newest = newest;
  }

  _row(update, longest, fresh) {
    const row = document.createElement("li");
    row.classList.toggle("fresh", fresh);
    const name = document.createElement("span");
    name.className = "purpose";
    name.textContent = NAMES[update.purpose] ?? update.purpose;
    const bar = document.createElement("span");
    bar.className = "bar";
    for (const stage of STAGES) {
      const part = document.createElement("i");
      part.className = stage;
      part.style.width = `${((update[stage] ?? 0) / longest) * 100}%`;
      bar.append(part);
    }
    const took = document.createElement("span");
    took.className = "took";
    took.textContent = `${ms(total(update))} ms`;
    row.append(name, bar, took);
    const said = STAGES.filter((stage) => update[stage] !== null)
      .map((stage) => `${stage} ${ms(update[stage])} ms`)
      .join(", ");
    row.title = said;
    bar.setAttribute("role", "img");
    bar.setAttribute("aria-label", said);
    return row;
  }
}

const total = (update) => STAGES.reduce((all, stage) => all + (update[stage] ?? 0), 0);

export const ms = (seconds) => {
  const value = seconds * 1000;
  return value < 10 ? value.toFixed(1) : value.toFixed(0);
};
