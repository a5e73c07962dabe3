"""For LiteRT (ai-edge-litert)."""

import copy
import os
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Optional, Tuple

from ._cache import pack
from ._tool import Error, NothingToPack, Pathname, SourceChanged, layout

if TYPE_CHECKING:
    from ai_edge_litert.compiled_model import CompiledModel
    from ai_edge_litert.environment import Environment
    from ai_edge_litert.options import Options


def load(
    model: Pathname,
    *,
    options: Optional["Options"] = None,
    environment: Optional["Environment"] = None,
    directory: Optional[Pathname] = None,
) -> "CompiledModel":
    """Returns CompiledModel.from_file(model), which maps the packed weights of the model.

    They are packed if they are not there: see xpwc.pack, which also explains directory. options are copied, and the
    copy gets the path. The packed weights have the digest of the model in their name, so a retrained model never gets
    those of an older one.

    Raises SourceChanged if the model was replaced or written to meanwhile: load it again. Raises Error if the
    installed ai-edge-litert has another version than the one that the tool packs for, and for xnnpack_flags, which
    change what is packed.
    """
    if options is not None and options.cpu_options.xnnpack_flags is not None:
        raise Error("xnnpack_flags: xpwc packs for LiteRT's default flags; load without it, or without xpwc", "usage")
    chosen = copy.deepcopy(options) if options is not None else new_options()
    from ai_edge_litert.compiled_model import CompiledModel

    stamp = stamp_of(model)
    chosen.cpu_options.xnnpack_weight_cache_path = path_of(model, directory)
    loaded = CompiledModel.from_file(os.fsdecode(model), environment=environment, options=chosen)
    if stamp_of(model) != stamp:
        loaded.close()
        raise SourceChanged(f"{os.fsdecode(model)} changed while it was loaded", "source_changed")
    return loaded


def options(model: Pathname, *, directory: Optional[Pathname] = None) -> "Options":
    """Returns options with which CompiledModel.from_file(model, options=...) maps the packed weights of a model.

    It is for a model that nobody replaces before from_file has opened it; load is safe with others. The path in the
    options has the digest of the model that is there now. Do not use the options for another model, and make new ones
    for each CompiledModel: the file may have changed.

    A model without weights to pack gets options without a path. Raises Error as load does.
    """
    made = new_options()
    made.cpu_options.xnnpack_weight_cache_path = path_of(model, directory)
    return made


def new_options() -> "Options":
    """Returns LiteRT's default options. Raises Error if ai-edge-litert is not installed."""
    try:
        from ai_edge_litert.options import Options
    except ImportError:
        raise Error(need() + "; it is not installed, or older") from None
    return Options()


def path_of(model: Pathname, directory: Optional[Pathname]) -> str:
    """Packs a model if need be. Returns the path of its packed weights, or "" if it has none to pack."""
    if installed() != layout().version_of("litert"):
        raise Error(f"{need()}; installed is {installed()}")
    try:
        return str(pack(model, "litert", directory=directory))
    except NothingToPack:
        return ""


def stamp_of(path: Pathname) -> Tuple[int, ...]:
    """Returns what changes when a file is replaced or written to."""
    info = os.stat(path)
    return (info.st_dev, info.st_ino, info.st_size, info.st_mtime_ns, info.st_ctime_ns)


def installed() -> str:
    """Returns the version of ai-edge-litert, or "" if it is not installed."""
    try:
        return version("ai-edge-litert")
    except PackageNotFoundError:
        return ""


def need() -> str:
    """Names the package that the tool packs for."""
    packed_for = layout().version_of("litert")
    if not packed_for:
        return "xpwc packs for no LiteRT on this machine"
    return f"xpwc packs for LiteRT {packed_for}: pip install ai-edge-litert=={packed_for}"
