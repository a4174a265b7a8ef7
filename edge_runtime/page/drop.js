// Files that are dragged over the page, and let go anywhere on it.

export function onDrop(sign, take) {
  let depth = 0; // each element below the pointer enters and leaves by itself
  const show = (change) => {
    depth = Math.max(0, depth + change);
    sign.hidden = !depth;
  };
  addEventListener("dragenter", (event) => {
    event.preventDefault();
    show(1);
  });
  addEventListener("dragleave", () => show(-1));
  addEventListener("dragover", (event) => event.preventDefault());
  addEventListener("drop", (event) => {
    event.preventDefault();
    show(-depth);
    const [file] = event.dataTransfer.files;
    if (file) take(file);
  });
}
