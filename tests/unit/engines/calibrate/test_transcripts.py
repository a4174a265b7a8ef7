"""Tables of transcripts: every spelling that is read, and tables that belong to other audio."""

import pytest

from edge_runtime.engines.calibrate.transcripts import Doubt, doubtful, read
from edge_runtime.errors import CalibrationError


def table(folder, text, name="manifest.tsv"):
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("manifest.tsv", "id\tpath\ttranscript\nx\ta/b.flac\tONE TWO\n"),
        ("t.tsv", "path\tsentence\na/b.flac\tONE TWO\n"),
        ("t.csv", 'file_name,text\na/b.wav,"ONE TWO"\n'),
        ("t.csv", "\ufeffId,Transcription\r\nb,ONE TWO\r\n"),
    ],
)
def test_tables_are_read_however_they_are_spelled(tmp_path, name, text):
    found = read(table(tmp_path, text, name), tmp_path)
    assert found.of(tmp_path / "a" / "b.flac").text == "ONE TWO"
    assert found.of(tmp_path / "a" / "c.flac").text is None
    assert found.source == tmp_path / name


def test_quotation_marks_in_tabbed_tables_are_text_and_in_commas_are_not(tmp_path):
    tabbed = read(table(tmp_path, 'id\ttext\nb\t"YES" HE SAID\n'), tmp_path)
    assert tabbed.of(tmp_path / "b.wav").text == '"YES" HE SAID'
    commas = read(table(tmp_path, 'id,text\nb,"YES, HE SAID"\n', "t.csv"), tmp_path)
    assert commas.of(tmp_path / "b.wav").text == "YES, HE SAID"


def test_a_table_that_lies_elsewhere_is_matched_by_names(tmp_path):
    (tmp_path / "lists").mkdir()
    found = read(table(tmp_path / "lists", "path\ttext\nx/b.wav\tONE\n"), tmp_path)
    assert found.of(tmp_path / "y" / "b.wav").text == "ONE"


def test_a_name_that_two_lines_share_decides_nothing(tmp_path):
    found = read(table(tmp_path, "path\ttext\nx/1.wav\tONE\ny/1.wav\tTWO\n"), tmp_path)
    assert found.of(tmp_path / "y" / "1.wav").text == "TWO"
    assert found.of(tmp_path / "z" / "1.wav").text is None


def test_an_empty_transcript_is_silence_unless_the_condition_says_otherwise(tmp_path):
    found = read(
        table(
            tmp_path,
            "id\ttranscript\tcondition\na\t\tnon-speech noise\nb\t\tmeeting\nc\tONE\tnon-speech?\n",
        ),
        tmp_path,
    )
    assert [found.of(tmp_path / f"{name}.wav").text for name in "abc"] == ["", None, "ONE"]
    plain = read(table(tmp_path, "id\ttranscript\na\t \n"), tmp_path)
    assert plain.of(tmp_path / "a.wav").text == ""


def test_speakers_are_read(tmp_path):
    found = read(table(tmp_path, "client_id\tpath\tsentence\nann\ta.mp3\tONE\n"), tmp_path)
    assert found.of(tmp_path / "a.mp3").speaker == "ann"


def test_without_a_table_the_text_beside_a_recording_is_read(tmp_path):
    (tmp_path / "a.txt").write_text("one two\n")
    found = read(None, tmp_path)
    assert found.source is None
    assert found.of(tmp_path / "a.wav").text == "one two"
    assert found.of(tmp_path / "b.wav").text is None


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "no column of recordings or of transcripts"),
        ("id\twords\na\tb\n", "no column"),
        ("id\ttext\n", "hold no lines"),
    ],
)
def test_a_table_that_cannot_be_used_says_why(tmp_path, text, said):
    with pytest.raises(CalibrationError, match=said) as caught:
        read(table(tmp_path, text), tmp_path)
    assert caught.value.fix


def test_a_table_that_is_missing_or_no_text_says_so(tmp_path):
    with pytest.raises(CalibrationError, match="cannot be read"):
        read(tmp_path / "none.tsv", tmp_path)
    (tmp_path / "t.tsv").write_bytes(b"id\ttext\na\t\xff\xfe\n")
    with pytest.raises(CalibrationError, match="not UTF-8"):
        read(tmp_path / "t.tsv", tmp_path)


def test_transcripts_that_the_audio_contradicts_are_found():
    said = {
        "good": "a red fox runs home",
        "poor": "a red fox runs home",  # three of five wrong: 60 %, still believed
        "bad": "red fox over bridge now",
        "worse": "word",
        "silent": "",
        "unheard": "more",
    }
    texts = {
        "good": "A red fox: runs home!",
        "poor": "a red cat under water",
        "bad": "red cat under water yesterday",
        "worse": "quite another thing",
        "silent": "noise",
    }
    assert doubtful(said, texts) == [Doubt("worse", 300.0), Doubt("bad", 80.0)]


def test_a_table_of_other_audio_is_refused():
    said = {"a": "red cat", "b": "green door", "c": "stone road"}
    texts = {"a": "red cat", "b": "red fox", "c": "old bridge"}
    with pytest.raises(CalibrationError, match=r"2 of 3 transcripts .* b \(100 %\), c \(100 %\)"):
        doubtful(said, texts)
