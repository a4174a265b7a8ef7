"""faster-whisper, in an environment of its own: one window for each clip, greedy, float32.

Arguments are packages with the weights, or a folder. Reads paths, a line each; writes JSON lines.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

from faster_whisper import WhisperModel
from faster_whisper.audio import decode_audio

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from peering.whisper import weights


def main(names: list[str]) -> None:
    """Answer until there are no more paths."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = weights(names, Path(scratch))
        model = WhisperModel(str(folder), device="cpu", compute_type="float32", cpu_threads=1)
        for line in sys.stdin:
            segments, about = model.transcribe(
                decode_audio(line.strip()), beam_size=1, temperature=0.0, without_timestamps=True,
                condition_on_previous_text=False,
            )  # fmt: skip
            said = {
                "found": about.language,
                "probability": round(about.language_probability, 3),
                "text": "".join(segment.text for segment in segments).strip(),
            }
            print(json.dumps(said, ensure_ascii=False), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
