import gc

from feddecorr.engines.processes import context


def count_frozen(connection: object) -> None:
    """Say how many objects no collection of garbage looks at."""
    connection.send(gc.get_freeze_count())  # type: ignore[attr-defined]  # an end of a pipe


def test_what_workers_share_is_not_looked_through_for_garbage() -> None:
    """A look writes to every object, and so would copy what the server process has imported for all."""
    mine, theirs = context().Pipe()
    process = context().Process(target=count_frozen, args=(theirs,))
    process.start()
    assert mine.recv() > 10_000
    process.join()
