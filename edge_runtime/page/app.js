// The page: what its buttons do, and where everything that happens is shown.

import { onDrop } from "./drop.js";
import { RATE, decode } from "./file.js";
import { KeyDialog } from "./keydialog.js";
import { Microphone } from "./microphone.js";
import { Overview } from "./overview.js";
import { Session } from "./session.js";
import { Recording, Tape } from "./tape.js";
import { Transcript, clock } from "./transcript.js";
import { Trouble } from "./trouble.js";

const KEPT = 30; // s of a microphone that wait for a server
const SILENT = 4; // s of nothing at all before we say so
const LATE = 2; // s behind before we say so
const ONE = "One at a time: stop what is running, then bring the file.";

const at = (id) => document.getElementById(id);
const transcript = new Transcript(at("list"), at("live"), show);
const overview = new Overview(at, () => note("This server asks for a key: enter it above."));
const keys = new KeyDialog(at("ask"), () => {
  complain(null);
  note("");
  overview.look();
});

let session = null; // what is being heard, one at a time
let microphone = null;
let opening = false;
let hinted = "";

// -- a recording, from a microphone or a file

function hear(title, tape, partials) {
  transcript.begin(title);
  let last = 0;
  const said = (event, seconds) => {
    if (event.type === "partial") transcript.partial(event.stable, event.unstable);
    else if (event.type === "final") transcript.final(event.text, seconds(event.start));
    else if (event.type === "warning") complain(new Trouble(`${event.message}.`, ""));
    if (event.end !== undefined) last = seconds(event.end);
    if (event.type === "final" && tape instanceof Recording) {
      at("progress").value = last / (tape.end / tape.rate);
    }
    // for whoever measures: when an event was shown
    document.dispatchEvent(new CustomEvent("edge-runtime:event", { detail: event }));
  };
  session = new Session(tape, partials, {
    event: said,
    state: (name, trouble) => {
      at("captions").dataset.session = name;
      if (name === "waiting") complain(trouble);
      if (name === "open") complain(null);
      show();
    },
    skipped: (seconds) => note(`${seconds.toFixed(1)} s of speech were lost: the server was away too long.`),
    over: (trouble) => {
      transcript.keep(last);
      session = null;
      delete at("captions").dataset.session;
      stopListening();
      if (trouble) refuse(trouble);
      show();
    },
  });
  show();
}

async function listen() {
  complain(null);
  note("");
  opening = true;
  show();
  let tape = null;
  let quiet = 0;
  const heard = (samples) => {
    if (!tape) return;
    tape.push(samples);
    session?.pump();
    const loud = peak(samples);
    at("level").value = Math.sqrt(loud);
    quiet = loud ? 0 : quiet + samples.length / tape.rate;
    hint(quiet, session ? session.behind / tape.rate : 0);
    // for whoever measures: when a piece was there, and what it holds
    const detail = { samples, end: tape.end, rate: tape.rate, at: performance.now() };
    document.dispatchEvent(new CustomEvent("edge-runtime:audio", { detail }));
  };
  try {
    microphone = await Microphone.open(heard, (trouble) => {
      stopListening();
      complain(trouble);
      session?.end();
    });
    tape = new Tape(microphone.rate, KEPT);
    hear(`Microphone, ${new Date().toLocaleTimeString([], { timeStyle: "short" })}`, tape, true);
  } catch (trouble) {
    complain(trouble);
  }
  opening = false;
  show();
}

function stopListening() {
  microphone?.close();
  microphone = null;
  at("level").hidden = true;
  show();
}

async function read(file) {
  if (session || opening) {
    note(ONE);
    return;
  }
  complain(null);
  opening = true;
  note(`Reading ${file.name} …`);
  show();
  try {
    const recording = new Recording(RATE, await decode(file));
    at("progress").value = 0;
    // without partials its text depends on the audio alone
    hear(`${file.name}, ${clock(recording.end / RATE)}`, recording, false);
    session.end();
    note("");
  } catch (trouble) {
    note("");
    complain(trouble);
  }
  opening = false;
  show();
}

function toggle() {
  if (!session && !opening) listen();
  else if (microphone) {
    stopListening();
    session?.end();
  } else session?.abandon(); // the second time: whatever is on its way
}

const peak = (samples) => samples.reduce((most, each) => Math.max(most, Math.abs(each)), 0) / 32768;

// -- what is shown

function show() {
  const running = Boolean(session || microphone);
  const button = at("listen");
  button.dataset.running = String(running);
  // not `disabled`, which would take the focus away
  button.setAttribute("aria-disabled", String(opening));
  button.querySelector("span").textContent = label(running);
  at("choose").setAttribute("aria-disabled", String(running || opening));
  at("level").hidden = !microphone;
  at("progress").hidden = !session || Boolean(microphone) || opening;
  const { empty } = transcript;
  at("nothing").hidden = !empty;
  for (const id of ["copy", "save", "clear"]) at(id).disabled = empty;
  const paper = at("paper");
  // the newest line stays in sight, unless somebody reads further up
  if (pinned) paper.scrollTop = paper.scrollHeight;
}

function label(running) {
  if (opening) return "One moment …";
  if (!running) return "Start microphone";
  return "Stop";
}

// What a listener should know while the microphone is on.
function hint(quiet, behind) {
  let text = "";
  if (quiet > SILENT) text = "The microphone is silent: is it muted, or another one chosen?";
  else if (behind > KEPT - 1) text = `Speech older than ${KEPT} s is lost until the server is back.`;
  else if (behind > LATE) text = `${clock(behind)} behind: what was said is kept and comes in turn.`;
  if (text !== hinted) note(text);
  hinted = text;
}

function note(text) {
  if (at("note").textContent !== text) at("note").textContent = text;
}

function complain(trouble) {
  const box = at("trouble");
  box.hidden = !trouble;
  if (!trouble) return;
  box.querySelector("b").textContent = trouble.message;
  box.querySelector("span").textContent = trouble.fix ?? "";
}

// Where a session ended because of `trouble`.
function refuse(trouble) {
  complain(trouble);
  if (trouble.code.startsWith("key_")) keys.ask(trouble.code === "key_unknown" ? trouble.message : "");
}

// -- buttons, keys, files

let pinned = true;
at("paper").addEventListener("scroll", ({ target }) => {
  pinned = target.scrollHeight - target.scrollTop - target.clientHeight < 40;
});

at("listen").addEventListener("click", toggle);
at("choose").addEventListener("click", () => {
  if (session || opening) note(ONE);
  else at("file").click();
});
at("file").addEventListener("change", ({ target }) => {
  if (target.files[0]) read(target.files[0]);
  target.value = ""; // so that the same file can be chosen again
});
at("copy").addEventListener("click", async () => {
  note((await copied(transcript.text())) ? "Copied." : "The browser does not let pages copy: use Save text.");
});
at("save").addEventListener("click", () => {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([transcript.text()], { type: "text/plain" }));
  link.download = `captions-${new Date().toISOString().slice(0, 16).replace(/[T:]/g, "-")}.txt`;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
});
at("clear").addEventListener("click", () => {
  transcript.clear();
  if (session) transcript.begin("");
  at("listen").focus();
});
at("trouble").querySelector("button").addEventListener("click", () => complain(null));
at("key").addEventListener("click", () => keys.ask(""));

async function copied(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return false;
  }
}

onDrop(at("drop"), read);

addEventListener("pagehide", () => session?.abandon());

show();
