// What the server says of itself, as rows of a list.

export function facts(health, power) {
  const known = health.sessions !== undefined;
  const rows = known
    ? [
        ["Model", `${health.model}${health.precision ? `, ${health.precision}` : ""}`],
        ["Device", health.device],
        ["Sessions", sessions(health.sessions)],
        ["Calibrated", health.variant && `${health.variant}${health.forced ? ", forced" : ""}`],
        ["On trial", health.canary && trial(health.canary)],
        ["Fell back", health.fallback, "warn"],
        ["Lost", health.lost, "warn"],
        ["Not used", health.variant_unused, "warn"],
        ["Running for", duration(health.uptime)],
        ["Power", power && readings(power.watts, "W", 1)],
        ["Heat", power && readings(power.celsius, "°C", 0)],
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

function sessions({ open, parked, max }) {
  return `${open} of ${max}${parked ? `, ${parked} waiting for their client` : ""}`;
}

function trial({ variant, share, ended }) {
  return ended ? `${variant}: ${ended}` : `${variant}, ${Math.round(share * 100)} % of sessions`;
}

function readings(all, unit, digits) {
  return all.length
    ? all.map(([name, value]) => `${name} ${value.toFixed(digits)} ${unit}`).join(", ")
    : "no sensor is read";
}

function duration(seconds) {
  if (seconds < 90) return `${Math.round(seconds)} s`;
  if (seconds < 5400) return `${Math.round(seconds / 60)} min`;
  if (seconds < 172800) return `${Math.round(seconds / 3600)} h`;
  return `${Math.round(seconds / 86400)} days`;
}
