from feddecorr.paper.theory.listening import part


def test_a_part_is_heard_within_the_whole() -> None:
    """Parts of parts, too: half of the second half is three quarters."""
    heard: list[float] = []
    second = part(heard.append, 0.5, 1)
    second(0)
    second(0.5)
    part(second, 0, 0.5)(1)
    second(1)
    assert heard == [0.5, 0.75, 0.75, 1]
