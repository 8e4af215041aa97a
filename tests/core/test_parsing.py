import json

import pytest

from feddecorr.core.text import parse_json


@pytest.mark.parametrize(
    "number",
    ["1e400", "-1e400", "1.5E+0400", "1" + "0" * 400, "-" + "9" * 309 + ".5", "NaN", "Infinity", "-Infinity"],
)
@pytest.mark.parametrize("around", ["{}", "[0, {}]", '{{"a":{}}}', ' {{"a": [1,{}], "b": 2}}'])
def test_what_is_no_finite_number_is_refused(number: str, around: str) -> None:
    with pytest.raises(ValueError, match=r"is no number|integer string conversion"):
        parse_json(around.format(number).encode())


@pytest.mark.parametrize(
    "value",
    [0, -0.0, 1e308, -1e-320, 10**300, [0, 1.5e-300], {"sha256": "1e400" * 20, "a": [{"b": 1e299}]}, "9" * 400, True],
)
def test_everything_else_is_as_python_reads_it(value: object) -> None:
    """Whole numbers stay whole, also where a number had to be looked at."""
    content = json.dumps(value)
    found = parse_json(content.encode())
    assert found == value
    assert type(found) is type(value)
    assert str(parse_json(f"[{content}, 1e299, 0, {10**299}]".encode())) == str([value, 1e299, 0, 10**299])
