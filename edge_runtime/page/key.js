// The server's key: kept for this tab alone, sent as the server wants it.

const PLACE = "edge-runtime-key";

export const key = {
  get: () => sessionStorage.getItem(PLACE) ?? "",
  set: (value) => sessionStorage.setItem(PLACE, value),
  forget: () => sessionStorage.removeItem(PLACE),
};

// A WebSocket can carry no header: the key goes as one of its protocols.
export function protocols() {
  return key.get() ? ["edge-runtime", `edge-runtime-key.${key.get()}`] : ["edge-runtime"];
}

export function ask(path) {
  const headers = key.get() ? { Authorization: `Bearer ${key.get()}` } : {};
  return fetch(path, { headers, cache: "no-store" });
}
