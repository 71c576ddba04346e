"""The weights of a known architecture in, a packed graph out; made once and kept in the store."""

from __future__ import annotations

import hashlib
import logging
import shutil
from typing import TYPE_CHECKING

import numpy as np

from onnx_embeddings.arrays import Graph
from onnx_embeddings.compiler import compiled, ranges
from onnx_embeddings.compiler.bert_config import BertConfig
from onnx_embeddings.compiler.compiled import GRAPH_FILE, SCHEMES, WEIGHTS_FILE
from onnx_embeddings.compiler.packed import LONG_TEXT, OUTPUT, SITES, Observed, Packed
from onnx_embeddings.digests import digest
from onnx_embeddings.errors import ModelFormatError, VerificationError
from onnx_embeddings.manifest import GRAPH_FORMAT
from onnx_embeddings.spec import Precision

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from onnx_embeddings.compiler.encoder import Array, Encoder
    from onnx_embeddings.compiler.int8 import Range
    from onnx_embeddings.folder import ModelFolder
    from onnx_embeddings.store import Store

    Measure = Callable[[Graph], Mapping[str, Array]]
    """Runs sample texts through a graph; (batches, channels) of each output but token vectors."""

logger = logging.getLogger(__name__)


class Checkpoint:
    """The weights of a model.

    Attributes:
        weights: digest of the numbers and of the architecture they belong to.
    """

    def __init__(self, folder: ModelFolder, store: Store) -> None:
        """Read the configuration.

        Raises:
            ModelFormatError: it is damaged, or asks for what is not supported.
        """
        self._folder = folder
        self._config = BertConfig.read(folder.config, folder.weights[0].parent / "config.json")
        files = [store.sha256(file) for file in folder.weights]
        self.weights = digest([files, self._config.architecture()])

    def graph(self, precision: Precision, store: Store, measure: Measure) -> Graph:
        """The graph in this precision; see `prepare`."""
        shipped = ranges.shipped(self.weights) if precision is Precision.INT8 else None

        def write(target: Path) -> None:
            if precision is Precision.FP32:
                self._write(Packed, target)
            else:
                from onnx_embeddings.compiler.packed_int8 import PackedInt8

                reach = (
                    self.measured(target / "sample", measure)
                    if shipped is None
                    else ranges.read(shipped, self._sites(), self._config.hidden_size)
                )
                self._write(lambda encoder: PackedInt8(encoder, reach), target, finite=True)
            compiled.write(target, self._graph_in(target, precision), self._folder.model)

        origin = None if shipped is None else hashlib.sha256(shipped).hexdigest()
        key = digest([GRAPH_FORMAT, self.weights, SCHEMES[precision.value], origin])[:16]
        name = f"{self._folder.name}-{precision.value}-{key}"
        place = _whole(store, name, write)
        try:
            return compiled.read(place, store.sha256)
        except (ModelFormatError, VerificationError, OSError):
            # Somebody deleted it in between; if it is something else it comes again.
            return compiled.read(_whole(store, name, write), store.sha256)

    def measured(self, sample: Path, measure: Measure) -> dict[str, Range]:
        """How far the values reach on sample texts.

        Args:
            sample: a folder for the graph that finds it; made, and removed again.
            measure: runs it.

        Raises:
            ModelFormatError: it has numbers that are not finite, or comes to such.
        """
        sample.mkdir()
        try:
            self._write(Observed, sample, finite=True)
            values = measure(self._graph_in(sample, Precision.FP32))
        except ModelFormatError as error:
            if error.path != str(sample / GRAPH_FILE):
                raise
            # That file goes with the folder: what is wrong is the model, not a copy to delete.
            raise self._unmeasurable(error.reason) from error
        finally:
            # A file that can't be removed must not hide what went wrong.
            shutil.rmtree(sample, ignore_errors=True)
        for name, value in values.items():
            if not np.isfinite(value).all():
                raise self._unmeasurable(f"{name} of the sample texts is not finite")
        return ranges.from_outputs(values)

    def _unmeasurable(self, reason: str) -> ModelFormatError:
        hint = "use precision='fp32'"
        return ModelFormatError(
            self._folder.weights[0], f"can't be measured for int8: {reason}", hint
        )

    def _sites(self) -> list[str]:
        layers = range(self._config.num_hidden_layers)
        return [f"layer{number}.{site}" for number in layers for site in SITES]

    def _write(
        self, packed: Callable[[Encoder], Packed], target: Path, *, finite: bool = False
    ) -> None:
        from onnx_embeddings.compiler.bert import Bert
        from onnx_embeddings.compiler.weights import Weights

        with (
            Weights(self._folder.weights, finite=finite) as tensors,
            (target / WEIGHTS_FILE).open("wb") as data,
        ):
            encoder = Bert(self._config, tensors)
            packed(encoder).write(data, WEIGHTS_FILE, target / GRAPH_FILE)

    def _graph_in(self, place: Path, precision: Precision) -> Graph:
        takes_long = self._config.max_position_embeddings > LONG_TEXT
        return Graph(
            path=place / GRAPH_FILE,
            layout="packed",
            hidden_size=self._config.hidden_size,
            weights=self.weights,
            precision=precision.value,
            scheme=SCHEMES[precision.value],
            output=OUTPUT,
            long_text=LONG_TEXT if takes_long else None,
        )


def _whole(store: Store, name: str, write: Callable[[Path], None]) -> Path:
    """The compiled folder of this name, made where none is whole."""
    for place in store.copies(store.compiled / name):
        if _is_whole(place, store):
            return place
        logger.warning("%s is damaged: the model is compiled again", place)
    place = store.next_copy(store.compiled / name)
    logger.info("compiling %s", place)
    return store.publish(place, write)


def _is_whole(place: Path, store: Store) -> bool:
    """Whether a compiled folder has all of its files, with the content that they had."""
    try:
        compiled.read(place, store.sha256)
    except (ModelFormatError, VerificationError, OSError):
        return False
    return True
