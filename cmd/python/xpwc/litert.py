"""For LiteRT (ai-edge-litert)."""

from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Optional

from ._cache import pack
from ._tool import Error, NothingToPack, Pathname, layout

if TYPE_CHECKING:
    from ai_edge_litert.options import Options


def options(model: Pathname, *, directory: Optional[Pathname] = None) -> "Options":
    """Returns options with which CompiledModel.from_file(model, options=...) maps the packed weights of a model.

    They are packed if they are not there: see xpwc.pack, which also explains directory. The path in the options has
    the digest of the model that is there now, so a retrained model never gets the weights of an older one. Do not use
    the options for another model, and make new ones for each CompiledModel: the file may have changed.

    A model without weights to pack gets options without a path. Raises Error if the installed ai-edge-litert has
    another version than the one that the tool packs for.
    """
    try:
        from ai_edge_litert.cpu_options import CpuOptions
        from ai_edge_litert.options import Options
    except ImportError:
        raise Error(need() + "; it is not installed, or older") from None
    if installed() != layout().version_of("litert"):
        raise Error(f"{need()}; installed is {installed()}")
    try:
        path = str(pack(model, "litert", directory=directory))
    except NothingToPack:
        path = ""
    return Options(cpu_options=CpuOptions(xnnpack_weight_cache_path=path))


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
