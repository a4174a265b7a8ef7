"""One set of scales: numbers that float16 holds, JSON that is the same for the same scheme."""

import json
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge_runtime.engines.calibrate.scheme import FILE, Product, Scheme, encode, load, step, steps
from edge_runtime.errors import CalibrationError, ModelDamaged, ModelMissing


@given(st.floats(0, 8e6))
def test_a_step_is_a_float16_that_reaches_the_largest_value(largest: float) -> None:
    found = step(largest)
    assert float(np.float16(found)) == found
    assert found >= float(np.finfo(np.float16).tiny)
    assert found * 127 >= largest
    # The next smaller one would not do.
    lower = float(np.nextafter(np.float16(found), np.float16(0)))
    assert lower * 127 < largest or found == float(np.finfo(np.float16).tiny)
    assert step(found * 127) == found


def test_steps_are_those_of_each() -> None:
    largest = np.random.default_rng(1).gamma(0.5, 3, 200).astype(np.float32)
    assert steps(largest).tolist() == [step(float(each)) for each in largest]


def test_json_there_and_back(tmp_path) -> None:
    one, other = Product(scale=0.5, smooth=(1.0, 0.25)), Product(precision="fp16")
    made = Scheme(products={"b": other, "a": one})
    same = Scheme(products={"a": one, "b": other})
    assert encode(made) == encode(same)
    (tmp_path / FILE).write_bytes(encode(made))
    assert load(tmp_path) == made
    assert made.rounded("a") == one
    assert made.rounded("b") is made.rounded("c") is None


@pytest.mark.parametrize(
    ("product", "said"),
    [
        ({"scale": 0.1}, "scale 0.1 is no normal float16"),
        ({"scale": 0.0}, "scale 0.0 is no normal float16"),
        ({"scale": -0.5}, "scale -0.5"),
        ({"scale": 1e6}, "scale 1000000.0"),
        ({"smooth": [1.0, 0.0]}, r"> 0.0.*smooth"),
        ({"precision": "int3"}, "int3"),
        ({"scales": 1}, "unknown field `scales`"),
    ],
)
def test_what_cannot_be_is_refused(tmp_path, product, said: str) -> None:
    (tmp_path / FILE).write_text(json.dumps({"products": {"a": product}}))
    with pytest.raises(ModelDamaged, match=said) as refused:
        load(tmp_path)
    assert re.search("edge-runtime calibrate", refused.value.fix)


def test_no_scheme(tmp_path) -> None:
    with pytest.raises(ModelMissing, match=r"scheme\.json does not exist"):
        load(tmp_path)


@pytest.mark.parametrize("largest", [1e8, np.inf, np.nan])
def test_what_no_float16_reaches(largest: float) -> None:
    with pytest.raises(CalibrationError, match="more than 8 bits can hold"):
        step(largest)
