"""Image classifiers of Hugging Face's transformers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from torch import nn

from feddecorr.core.files import read_json
from feddecorr.core.limits import brief
from feddecorr.core.states import State
from feddecorr.errors import UserError
from feddecorr.models.pretrained import WEIGHTS, Inputs, Pretrained, classifier_name, find_in_hub, not_fetched


class HuggingFaceModel(Pretrained):
    """An image classifier of Hugging Face's transformers: model=hf:NAME_OR_FOLDER.

    A folder holds what `save_pretrained` writes; a name is that of a repository that `hf download` fetched, or of a
    type of network (`vit`, `resnet`) that begins at random, with `model.options.…` of its configuration.
    """

    def published(self) -> Path:
        """Return the file in the folder, or in the Hub's cache."""
        folder = self._folder()
        found = None if folder is None else next((folder / name for name in WEIGHTS if (folder / name).is_file()), None)
        if found is None:
            raise not_fetched(f"model=hf:{self.source}", self.source)
        return found

    def network(self, classes: int) -> nn.Module:
        """Return the classifier of that configuration."""
        config = self._config()
        config.num_labels = classes
        try:
            network: nn.Module = _library().AutoModelForImageClassification.from_config(config)
        except ValueError as error:
            raise UserError(f"'{self.source}' is no image classifier: {str(error).splitlines()[0]}") from error
        return network

    def inputs(self) -> Inputs:
        """Return what configuration and preprocessor say."""
        config, folder = self._config(), self._folder()
        path = None if folder is None else folder / "preprocessor_config.json"
        settings: dict[str, Any] = read_json(path) if path is not None and path.is_file() else {}
        size = _pair(getattr(config, "image_size", None) or settings.get("crop_size") or settings.get("size"))
        mean, std = settings.get("image_mean"), settings.get("image_std")
        constants = (tuple(mean), tuple(std)) if mean and std and settings.get("do_normalize", True) else None
        return Inputs(getattr(config, "num_channels", 3), size, constants)

    def filled(self, network: nn.Module, weights: State) -> tuple[nn.Module, set[str]]:
        """Let the library name and arrange the weights."""
        head = f"{classifier_name(network)}."
        given = {name: tensor for name, tensor in weights.items() if not name.startswith(head)}
        kind: Any = type(network)
        with _quiet():
            found, info = kind.from_pretrained(
                None, config=network.config, state_dict=given, output_loading_info=True, ignore_mismatched_sizes=True
            )
        return found, {*info["missing_keys"], *(name for name, *_ in info["mismatched_keys"])}

    def _folder(self) -> Path | None:
        """Return the folder with the configuration, if there is one on this machine."""
        given = Path(self.source).expanduser()
        if given.is_dir():
            return given.absolute()
        found = find_in_hub(self.source, ("config.json",))
        return None if found is None else found.parent

    def _config(self) -> Any:
        library, folder = _library(), self._folder()
        try:
            if folder is not None:
                return library.AutoConfig.from_pretrained(folder, local_files_only=True, **self.options)
            if not self.pretrained and self.source in library.CONFIG_MAPPING:
                return library.AutoConfig.for_model(self.source, **self.options)
        except Exception as error:  # whatever the library says of a file, a name or an option
            raise UserError(f"model=hf:{self.source}: {brief(' '.join(str(error).split()))}") from error
        raise not_fetched(f"model=hf:{self.source}", self.source)


def _pair(size: Any) -> tuple[int, int] | None:
    """Return height and width, however they are said."""
    if isinstance(size, Mapping):
        size = (size["height"], size["width"]) if "height" in size else size.get("shortest_edge")
    if size is None:
        return None
    height, width = size if isinstance(size, list | tuple) else (size, size)
    return int(height), int(width)


@contextmanager
def _quiet() -> Iterator[None]:
    """Let the library neither draw progress nor report the missing head, which is meant to be missing."""
    words = _library().utils.logging
    level, drawn = words.get_verbosity(), words.is_progress_bar_enabled()
    words.set_verbosity_error()
    words.disable_progress_bar()
    try:
        yield
    finally:
        words.set_verbosity(level)
        if drawn:
            words.enable_progress_bar()


def _library() -> Any:
    try:
        import transformers  # noqa: PLC0415 - an extra, loaded when it is needed
    except ImportError as error:
        raise UserError(
            f"model=hf needs Hugging Face's transformers ({error}): pip install 'feddecorr[transformers]'"
        ) from error
    return transformers
