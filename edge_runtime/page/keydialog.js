// Where the server's key is entered.

import { key } from "./key.js";

export class KeyDialog {
  // `changed()` is called when another key is to be used.
  constructor(dialog, changed) {
    this._dialog = dialog;
    this._why = dialog.querySelector("p").firstChild;
    this._how = this._why.textContent;
    this._input = dialog.querySelector("input");
    dialog.querySelector("[type=button]").addEventListener("click", () => dialog.close());
    dialog.querySelector("form").addEventListener("submit", (event) => {
      event.preventDefault();
      const given = this._input.value.trim();
      if (given) key.set(given);
      else key.forget();
      dialog.close();
      changed();
    });
  }

  ask(why) {
    if (this._dialog.open) return;
    this._why.textContent = `${why} ${this._how}`;
    this._input.value = key.get();
    this._dialog.showModal();
    this._input.select();
  }
}
