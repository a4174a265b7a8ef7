"""faster-whisper, in an environment of its own: one window for each clip, greedy, float32.

Arguments are packages with the weights, then files of sound. Writes a line of JSON for each.
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


def main(arguments: list[str]) -> None:
    """A line for each file."""
    files = [each for each in arguments if Path(each).is_file()]
    names = arguments[: len(arguments) - len(files)]
    with tempfile.TemporaryDirectory() as scratch:
        folder = weights(names, Path(scratch))
        model = WhisperModel(str(folder), device="cpu", compute_type="float32", cpu_threads=1)
        for file in files:
            segments, about = model.transcribe(
                decode_audio(file), beam_size=1, temperature=0.0, without_timestamps=True,
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
