"""Manifests: groups of clips, and errors that name the fix."""

import numpy as np
import pytest
import soundfile

from edge_runtime.bench.manifest import read, spread
from edge_runtime.errors import AudioError, ConfigError

HEAD = "id\tpath\tseconds\ttranscript\tcondition\n"


def written(folder, *lines, head=HEAD):
    path = folder / "manifest.tsv"
    path.write_text(head + "".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


def test_clips_fall_into_groups_by_folder_and_condition(tmp_path):
    found = read(
        written(
            tmp_path,
            "a\tlibrispeech_mini_x/a.flac\t1\tONE\tclean-read",
            "7367-86737-1\tlibrispeech_mini_x/b.flac\t1\tTWO\tclean-read",
            "c\tother/c.flac\t1\tTHREE\tclean-read",
            "d\tnoisy_mix/d.flac\t1\tFOUR\tnoisy mix SNR 0 dB",
            "e\tnonspeech/e.flac\t1\t\tnon-speech noise",
        )
    )
    assert [c.name for c in found.clean] == ["a", "7367-86737-1"]
    assert [c.name for c in found.chapter] == ["7367-86737-1"]
    assert [c.name for c in found.noisy] == ["d"]
    assert [c.name for c in found.speechless] == ["e"]
    assert found.clips[0].path == tmp_path / "librispeech_mini_x/a.flac"


def test_any_other_manifest_has_its_plain_speech_as_clean(tmp_path):
    found = read(
        written(tmp_path, "a\ta.wav\t1\tONE\t", "b\tb.wav\t1\t\t", "c\tc.wav\t1\tTWO\tnoisy")
    )
    assert [c.name for c in found.clean] == ["a"]
    assert found.chapter == found.clean


def test_quotation_marks_are_text(tmp_path):
    assert read(written(tmp_path, 'a\ta.wav\t1\t"YES" HE SAID\t')).clips[0].reference == (
        '"YES" HE SAID'
    )


def test_a_missing_file_column_or_line_is_told(tmp_path):
    with pytest.raises(ConfigError, match="tab-separated file with the columns"):
        read(tmp_path / "none.tsv")
    with pytest.raises(ConfigError, match="no column transcript"):
        read(written(tmp_path, "a\ta.wav", head="id\tpath\n"))
    with pytest.raises(ConfigError, match="lists no clips"):
        read(written(tmp_path))


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"id\tpath\n\xff", "cannot be read: 'utf-8' codec can't decode byte 0xff"),
        (b"id\t" + b"x" * 200_000, "cannot be read: field larger than field limit"),
        (b"id\tpath\ttranscript\na\ta.wav\tA\nb", "line 3 of the manifest .* no id or no path"),
        (b"id\tpath\ttranscript\n\ta.wav\tA", "line 2 of the manifest .* no id or no path"),
    ],
)
def test_what_is_no_manifest_is_told(tmp_path, content: bytes, said: str) -> None:
    (tmp_path / "manifest.tsv").write_bytes(content)
    with pytest.raises(ConfigError, match=said):
        read(tmp_path / "manifest.tsv")


def test_audio_becomes_mono_at_16_khz(tmp_path):
    stereo = np.stack([np.full(4800, 0.5), np.full(4800, -0.25)], axis=1)
    soundfile.write(tmp_path / "a.wav", stereo, 48000, subtype="FLOAT")
    clip = read(written(tmp_path, "a\ta.wav\t1\tONE\t")).clips[0]
    assert clip.pcm.dtype == np.float32
    assert len(clip.pcm) == 1600
    assert clip.seconds == pytest.approx(0.1)
    assert clip.pcm[400:1200] == pytest.approx(0.125, abs=1e-3)


def test_unreadable_audio_names_the_file(tmp_path):
    (tmp_path / "a.wav").write_bytes(b"not audio")
    clip = read(written(tmp_path, "a\ta.wav\t1\tONE\t")).clips[0]
    with pytest.raises(AudioError, match=r"a\.wav cannot be read"):
        clip.pcm  # noqa: B018


def test_spreading_takes_evenly_spaced_clips():
    assert spread("abcdefghij", 5) == ("a", "c", "e", "g", "i")
    assert spread("abc", 0) == ("a", "b", "c")
    assert spread("abc", 7) == ("a", "b", "c")


def test_recordings_that_a_calibration_heard_are_left_out(tmp_path):
    lines = [f"{name}\tfar/{path}\t1\tONE\t" for name, path in (("a", "x.flac"), ("b", "b.wav"))]
    found = read(written(tmp_path, *lines, "c\tc.wav\t1\tTWO\t"))
    left = found.without(["x.flac", "another/c.flac", "unknown.wav"])
    assert [clip.name for clip in left.clips] == ["b"]
    assert [clip.name for clip in left.clean] == ["b"]
