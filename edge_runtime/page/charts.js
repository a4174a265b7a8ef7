// What the figures were in the last half hour, kept in this page alone.

import { STAGES, sum } from "./figures.js";

const KEPT = 900; // points: half an hour at two seconds
const WINDOW = 300; // s shown, and as much of them as there was in the first minutes
const HEIGHT = 120;

const perSecond = (name) => (told) => {
  const growth = told.grown(name);
  return [growth === null ? null : growth / told.seconds];
};
const gauge = (name, scale = 1) => ({ samples }) => [sum(samples, name) * scale];

// Each chart: title, unit, digits after the point, lines with their colours, what to read.
const CHARTS = [
  ["Sessions", "open", 0, { open: "--line" }, gauge("edge_runtime_sessions_open")],
  ["Update, mean", "ms", 0, stacked(), stages],
  ["Audio", "× real time", 1, { audio: "--line" }, perSecond("edge_runtime_audio_seconds_total")],
  ["Processor", "cores", 2, { cores: "--line" }, perSecond("edge_runtime_process_cpu_seconds_total")],
  ["Memory", "MB", 0, { resident: "--line" }, gauge("edge_runtime_process_resident_memory_bytes", 1e-6)],
  ["Power", "W", 1, { power: "--line" }, watts],
  ["Hottest", "°C", 0, { heat: "--line" }, hottest],
];

function stacked() {
  // drawn from the whole down to the first stage, each over the one before
  return Object.fromEntries([...STAGES].reverse().map((stage) => [stage, `--${stage}`]));
}

function stages({ grown }) {
  const updates = grown("edge_runtime_updates_total");
  if (!updates) return STAGES.map(() => null);
  let all = 0;
  const heights = STAGES.map((stage) => {
    const count = stage === "emit" ? grown("edge_runtime_stage_seconds_count", { stage }) : updates;
    const took = grown("edge_runtime_stage_seconds_sum", { stage });
    all += count ? (took / count) * 1000 : 0;
    return all;
  });
  return heights.reverse();
}

// Of the board, or else of the processor by its own counter; undefined where neither is read.
function watts({ samples, grown, seconds }) {
  const board = samples.get("edge_runtime_power_watts")?.find(({ labels }) => labels.rail === "board");
  if (board) return [board.value];
  if (!samples.get("edge_runtime_energy_joules_total")?.length) return [undefined];
  const joules = grown("edge_runtime_energy_joules_total");
  return [joules === null ? null : joules / seconds];
}

function hottest({ samples }) {
  const zones = samples.get("edge_runtime_temperature_celsius") ?? [];
  return [zones.length ? Math.max(...zones.map(({ value }) => value)) : undefined];
}

export class Charts {
  constructor(place) {
    this._place = place;
    this._times = [];
    this._charts = CHARTS.map((given) => new Chart(...given));
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () =>
      this._charts.forEach((chart) => chart.redraw()),
    );
  }

  add(told) {
    const now = Date.now() / 1000;
    this._times.push(now);
    if (this._times.length > KEPT) this._times.shift();
    for (const chart of this._charts) {
      const values = chart.read(told);
      if (values[0] === undefined && !chart.shown) continue; // no such sensor here
      if (!chart.shown) chart.begin(this._place, this._times.length - 1);
      chart.add(this._times, values, KEPT);
    }
  }
}

class Chart {
  constructor(title, unit, digits, lines, read) {
    Object.assign(this, { title, unit, digits, lines, read, shown: false });
  }

  begin(place, missed) {
    this.shown = true;
    this._box = document.createElement("figure");
    const caption = document.createElement("figcaption");
    const title = document.createElement("span");
    title.textContent = this.title;
    this._value = document.createElement("output");
    caption.append(title, this._value);
    this._canvas = document.createElement("div");
    this._canvas.setAttribute("role", "img");
    this._box.append(caption, this._canvas);
    // in the order of the list, whenever a sensor is first heard of
    const order = CHARTS.findIndex(([name]) => name === this.title);
    this._box.dataset.order = order;
    const later = [...place.children].find((each) => Number(each.dataset.order) > order);
    place.insertBefore(this._box, later ?? null);
    this._data = Object.keys(this.lines).map(() => Array(missed).fill(null));
    this._plot = new uPlot(this._options(), [[], ...this._data], this._canvas);
    new ResizeObserver(() => this._resize()).observe(this._canvas);
  }

  add(times, values, kept) {
    this._times = times;
    this._data.forEach((line, n) => {
      line.push(values[n] ?? null);
      if (line.length > kept) line.shift();
    });
    const end = times.at(-1);
    this._plot.setData([times.map((time) => time - end), ...this._data], false);
    const shown = Math.min(WINDOW, Math.max(60, end - times[0]));
    this._plot.setScale("x", { min: -shown, max: 0 });
    this._tell(times.length - 1);
    const known = this._data[0].filter((value) => value !== null);
    this._canvas.setAttribute(
      "aria-label",
      known.length
        ? `${this.title}: from ${this._say(Math.min(...known))} to ${this._say(Math.max(...known))}`
        : `${this.title}: nothing yet`,
    );
  }

  redraw() {
    if (this.shown) this._plot.redraw(false, true);
  }

  _say(value) {
    return `${value.toFixed(this.digits)} ${this.unit}`;
  }

  _tell(at) {
    const value = this._data[0][at];
    this._value.textContent = value == null ? "–" : this._say(value);
  }

  _resize() {
    const width = this._canvas.clientWidth;
    if (width && width !== this._plot.width) this._plot.setSize({ width, height: HEIGHT });
  }

  _options() {
    const names = Object.entries(this.lines);
    const axis = { stroke: () => colour("--quiet"), font: "11px system-ui, sans-serif", size: 20 };
    const hidden = { show: false };
    return {
      width: this._canvas.clientWidth || 300,
      height: HEIGHT,
      legend: hidden,
      padding: [8, 14, 0, 0],
      cursor: { y: false, points: hidden, drag: { x: false, y: false } },
      scales: { x: { time: false }, y: { range: (_, __, most) => [0, Math.max(most * 1.15, 10 ** -this.digits * 4)] } },
      axes: [
        {
          ...axis,
          grid: hidden,
          ticks: hidden,
          incrs: [15, 30, 60, 120],
          values: (_, times) => times.map(ago),
          space: 60,
        },
        {
          ...axis,
          size: 38,
          space: 34,
          grid: { stroke: () => colour("--rule"), width: 1 },
          ticks: hidden,
          values: (_, values) => values.map((value) => String(Number(value.toPrecision(3)))),
        },
      ],
      series: [
        {},
        ...names.map(([, name]) => ({
          stroke: () => colour(name),
          fill: () => colour(names.length > 1 ? name : "--under"),
          width: names.length > 1 ? 0 : 1.5,
          // each mean stands for itself: between two of them nothing was decoded, perhaps
          paths: names.length > 1 ? uPlot.paths.bars({ size: [0.8, 12] }) : undefined,
          points: hidden,
        })),
      ],
      hooks: {
        setCursor: [({ cursor }) => this._data && this._tell(cursor.idx ?? this._data[0].length - 1)],
      },
    };
  }
}

const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

const ago = (seconds) => {
  if (seconds > -1) return "now";
  return seconds % 60 ? `−${-seconds} s` : `−${-seconds / 60} min`;
};
