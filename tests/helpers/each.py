"""Laws that hold within milliseconds for each of many values: one case for all of them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection
from typing import Any


def each(names: str, values: Collection[Any]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Like `pytest.mark.parametrize`, in a single case, whose failure names the values it failed with."""
    keys = [name.strip() for name in names.split(",")]
    assert values, names

    def decorate(law: Callable[..., None]) -> Callable[..., None]:
        def test(**given: Any) -> None:
            for value in values:
                found = dict(zip(keys, value if len(keys) > 1 else (value,), strict=True))
                try:
                    law(**given, **found)
                except BaseException as error:
                    error.add_note(f"with {found}")
                    raise

        signature = inspect.signature(law)
        assert set(keys) <= set(signature.parameters), keys
        others = [parameter for name, parameter in signature.parameters.items() if name not in keys]
        test.__signature__ = signature.replace(parameters=others)  # type: ignore[attr-defined]
        test.__name__, test.__doc__, test.__module__ = law.__name__, law.__doc__, law.__module__
        if marks := getattr(law, "pytestmark", None):
            test.pytestmark = marks  # type: ignore[attr-defined]
        return test

    return decorate
