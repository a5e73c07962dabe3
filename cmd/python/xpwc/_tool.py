"""Runs the tool and reads its JSON."""

import functools
import importlib.util
import json
import os
import resource
import subprocess
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any, Dict, List, Optional, Sequence, Tuple, Union

Pathname = Union[str, bytes, "os.PathLike[str]", "os.PathLike[bytes]"]


def decoded(name: Pathname) -> Path:
    """Returns a path; one in bytes is decoded as the functions of os do."""
    return Path(os.fsdecode(name))


class Error(Exception):
    """The tool failed. The text is the tool's own message.

    kind is one of the kinds in docs/json.md, such as "not_found" or "unsupported".
    """

    def __init__(self, message: str, kind: str = "failed") -> None:
        super().__init__(message)
        self.kind = kind


class NothingToPack(Error):
    """The model has no weights that its runtime packs: it needs no file."""


class SourceChanged(Error):
    """The model changed while it was packed or loaded. Call again."""


@dataclass(frozen=True)
class StockRuntime:
    """A version of a stock runtime that the tool packs for on this machine."""

    runtime: str
    """As pack takes it: "litert" or "executorch"."""
    version: str
    """Version of the package ai-edge-litert, or executorch."""
    cpu: str
    """What decides the layout of packed weights on this CPU, for people and file names."""
    packer: str = ""
    """Package and version whose library packs, if it is not the tool: "litert-lm-api 0.18.1"."""


@dataclass(frozen=True)
class Layout:
    """What this machine's CPU and the tool's XNNPACK pack weights into."""

    fingerprint: str
    """32 hexadecimal digits."""
    description: str
    runtimes: Tuple[StockRuntime, ...]

    def version_of(self, runtime: str) -> str:
        """Returns the version of a stock runtime that the tool packs for; "" if it packs for none here."""
        return next((r.version for r in self.runtimes if r.runtime == runtime), "")

    def cpu_of(self, runtime: str) -> str:
        """Returns the CPU for which the tool packs here; "" if it packs for none here."""
        return next((r.cpu for r in self.runtimes if r.runtime == runtime), "")


@dataclass(frozen=True)
class Stats:
    """Figures of a file of packed weights. Sizes are in bytes."""

    format: str
    """"litert", "xpwc2" (ExecuTorch's), "xpwc" and others."""
    entries: int
    payload_bytes: int
    file_bytes: int


def executable() -> Path:
    """Returns the path of the tool that was installed with this package."""
    # pip install --target moves programs into bin, and records where they were before. That may be another program now.
    moved = Path(__file__).parent.parent / "bin" / "xpwc"
    recorded = [Path(str(f.locate())) for f in metadata.files("xpwc") or [] if f.name == "xpwc"]
    for path in [moved, *recorded]:
        if os.access(path, os.X_OK):
            return path
        if path.exists():
            advice = "install xpwc on a file system that is mounted without noexec"
            raise Error(f"{path}: it may not be executed; {advice}", "permission")
    raise Error("the program xpwc is not installed: pip install --force-reinstall xpwc", "not_found")


def run(command: str, options: Sequence[str] = (), arguments: Sequence[Pathname] = ()) -> Dict[str, Any]:
    """Runs a command of the tool, and returns the JSON that it prints.

    Raises Error with the tool's words, or SourceChanged if the tool has seen the change.
    """
    tool = [str(executable()), command, "--json", *options, "--", *map(os.fsdecode, arguments)]
    process = subprocess.run(tool, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    try:
        result: Dict[str, Any] = json.loads(process.stdout)
    except ValueError:
        raise Error(failure_of(process)) from None
    failure = result.get("error")
    if failure is not None:
        kinds = {"source_changed": SourceChanged}
        raise kinds.get(failure["kind"], Error)(failure["message"], failure["kind"])
    return result


def failure_of(process: "subprocess.CompletedProcess[bytes]") -> str:
    """Returns what the loader or Go's runtime printed in place of JSON, with what to do."""
    words = process.stderr.decode(errors="replace").strip()
    if "error while loading shared libraries" in words:
        if not os.path.exists("/proc/self/exe"):
            return words + "; mount /proc: without it the loader cannot find the libraries of xpwc"
        return words + "; pip install --force-reinstall xpwc"
    fatal = [line for line in words.splitlines() if line.startswith("fatal error: ")]
    if fatal and resource.getrlimit(resource.RLIMIT_AS)[0] != resource.RLIM_INFINITY:
        return f"xpwc: {fatal[0]}; raise the limit of address space (ulimit -v): xpwc needs 2 GB"
    return words or f"{process.args[0]}: exit status {process.returncode}"


@functools.lru_cache(maxsize=None)
def layout() -> Layout:
    """Returns the layout of this machine and of the tool's XNNPACK, and the stock runtimes that the tool packs for."""
    result = run("layout")
    runtimes = tuple(
        StockRuntime(r["runtime"], r["version"], r["cpu"], r.get("packer", "")) for r in result.get("runtimes", [])
    )
    return Layout(result["layout"], result["description"], runtimes)


def stats(path: Pathname) -> Stats:
    """Returns figures of a file of packed weights, or of all files in a directory of LiteRT-LM's.

    Raises Error if a file is none of packed weights, or damaged.
    """
    total = [0, 0, 0]
    form = ""
    for file in files_of(path):
        result = run("inspect", [], [file])
        if "format" not in result:
            raise Error(f"{file}: not a file of packed weights", "not_cache")
        form = result["format"]
        for i, figure in enumerate(("entry_count", "payload_bytes", "file_bytes")):
            total[i] += result[figure]
    return Stats(form, *total)


def files_of(path: Pathname) -> List[Path]:
    """Returns the files of packed weights at a path: itself, or those in a directory of LiteRT-LM's, each once.

    A file in it may have two names.
    """
    named = decoded(path)
    if not named.is_dir():
        return [named]
    files = {f.stat().st_ino: f for f in sorted(named.glob("*.xnnpack_cache"), reverse=True)}
    if not files:
        raise Error(f"{named}: no file of packed weights is in this directory", "not_cache")
    return sorted(files.values())


def verify(
    path: Pathname,
    model: Pathname,
    *,
    data: Sequence[Pathname] = (),
    cpu: Optional[str] = None,
    target: Optional[str] = None,
) -> None:
    """Packs a model again, and compares every byte with a file, or with all files in a directory of LiteRT-LM's.

    data are the .ptd files of a program of ExecuTorch. cpu or target is what the file was packed for, if that is not
    this machine's CPU. Raises Error if the file is damaged, or lacks weights that the model is packed into.
    """
    options = ["--model=" + os.fsdecode(model)]
    if target is None:
        options += library()
    else:
        options.append("--target=" + target)
    if cpu is not None:
        options.append("--cpu=" + cpu)
    for file in files_of(path):
        run("verify", options, [file, *data])


def library() -> List[str]:
    """Returns the option with the library by which the tool packs for LiteRT, if it is installed."""
    spec = importlib.util.find_spec("litert_lm")
    for directory in (spec.submodule_search_locations or []) if spec else []:
        path = os.path.join(directory, "liblitert-lm.so")
        if os.path.exists(path):
            return ["--litert-lm=" + path]
    return []
