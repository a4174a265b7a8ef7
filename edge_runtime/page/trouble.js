// What went wrong and what to do about it, in two sentences.

export class Trouble extends Error {
  constructor(message, fix, code = "") {
    super(message);
    this.fix = fix;
    this.code = code;
  }
}

const refused = () =>
  new Trouble(
    "This page may not use the microphone.",
    "Allow it in the browser's settings for this page (the sign beside the address), then start again.",
  );
const busy = () =>
  new Trouble(
    "The microphone cannot be read: another program may be using it.",
    "Close that program, or choose another microphone in the system's settings, then start again.",
  );
const missing = () =>
  new Trouble("This device has no microphone.", "Connect one, then start again, or choose a file.");

const OF_MICROPHONES = {
  NotAllowedError: refused,
  SecurityError: refused,
  NotFoundError: missing,
  OverconstrainedError: missing,
  NotReadableError: busy,
  AbortError: busy,
};

// Browsers' names of what keeps a microphone silent, in words.
export function ofMicrophone(error) {
  if (error instanceof Trouble) return error;
  const known = OF_MICROPHONES[error.name];
  return known
    ? known()
    : new Trouble(`The microphone failed: ${error.message}.`, "Reload the page and start again.");
}

export function insecure({ hostname, port }) {
  const at = port || "80";
  return new Trouble(
    "Browsers give a microphone only to pages over https, or to those of this very machine.",
    `Start the server with --tls-cert and open https://${hostname}:${at}, or forward it: ` +
      `ssh -L ${at}:localhost:${at} ${hostname}, then open http://localhost:${at}. Files work here as well.`,
  );
}
