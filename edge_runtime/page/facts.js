// What the server says of itself, as rows of a list.

export function facts(health) {
  const known = health.sessions !== undefined;
  const rows = known
    ? [
        ["Model", `${health.model}${health.precision ? `, ${health.precision}` : ""}`],
        ["Device", health.device],
        ["Other models", others(health)],
        ["Sessions", sessions(health.sessions)],
        ["Calibrated", health.variant && `${health.variant}${health.forced ? ", forced" : ""}`],
        ["On trial", health.canary && trial(health.canary)],
        ["Fell back", health.fallback, "warn"],
        ["Lost", health.lost, "warn"],
        ["Not used", health.variant_unused, "warn"],
        ["Running for", duration(health.uptime)],
        ["Power", power(health.power)],
        ["Heat", heat(health.power)],
        ["Throttled", health.power?.throttled.join(", "), "warn"],
        ["Gives way", health.power?.limit.why, "warn"],
      ]
    : [["", "Model, device and sessions are told to whoever has a key."]];
  rows.push(["Version", health.version]);
  return rows.filter(([, told]) => told).flatMap(row);
}

function row([name, told, kind]) {
  const term = document.createElement("dt");
  const description = document.createElement("dd");
  term.textContent = name;
  description.textContent = told;
  if (kind) description.className = kind;
  return [term, description];
}

function others({ models = [], loading = null }) {
  const rest = models.filter((each) => !each.default);
  const said = rest.map(({ model, device, sessions, state, lost }) => {
    const notes = [device, `${sessions} sessions`];
    if (state !== "serving") notes.push(state);
    if (lost) notes.push("lost");
    return `${model} (${notes.join(", ")})`;
  });
  if (loading) said.push(`${loading} (loading)`);
  return said.join("; ");
}

function sessions({ open, parked, max }) {
  return `${open} of ${max}${parked ? `, ${parked} parked` : ""}`;
}

function trial({ variant, share, ended }) {
  return ended ? `${variant}: ${ended}` : `${variant}, ${Math.round(share * 100)} % of sessions`;
}

const NONE = "no sensor is read";

function power(read) {
  const said = [];
  if (read && read.watts !== null) said.push(`${read.watts.toFixed(1)} W`);
  if (read?.mode) said.push(`mode ${read.mode}`);
  return said.join(", ") || NONE;
}

function heat(read) {
  const zones = Object.entries(read?.temperatures ?? {}).sort(([, one], [, other]) => other - one);
  return zones.length ? `${zones[0][1].toFixed(0)} °C, ${zones[0][0]}` : NONE;
}

function duration(seconds) {
  if (seconds < 90) return `${Math.round(seconds)} s`;
  if (seconds < 5400) return `${Math.round(seconds / 60)} min`;
  if (seconds < 172800) return `${Math.round(seconds / 3600)} h`;
  return `${Math.round(seconds / 86400)} days`;
}
