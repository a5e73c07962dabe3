"""Packs the weights of models for XNNPACK ahead of time, for the stock runtimes LiteRT, LiteRT-LM and ExecuTorch.

The tool xpwc, which this package's wheel installs, does the work. The guide is docs/guide-python.md.
"""

from ._cache import pack
from ._tool import (
    Error,
    Layout,
    NothingToPack,
    SourceChanged,
    Stats,
    StockRuntime,
    layout,
    stats,
    verify,
)
from ._version import __version__
from . import litert

__all__ = [
    "Error",
    "Layout",
    "NothingToPack",
    "SourceChanged",
    "Stats",
    "StockRuntime",
    "__version__",
    "layout",
    "litert",
    "pack",
    "stats",
    "verify",
]
