"""Files of packed weights in a directory, named by what decides their content."""

import contextlib
import errno
import fcntl
import hashlib
import os
import pwd
import re
import shutil
import stat
import tempfile
from pathlib import Path
from typing import Iterator, List, Optional, Sequence

from ._tool import Error, NothingToPack, Pathname, SourceChanged, decoded, layout, library, run
from ._version import __version__

EXTENSIONS = {"litert": ".litert_cache", "executorch": ".packed_cache", "litert-lm": ""}

PACKING = ".packing-"
"""Prefix of the directories in which the tool packs. They are there only while the lock is held."""

ANOTHER_DIRECTORY = "choose another directory with directory=, or with XDG_CACHE_HOME"
"""Advice where packed weights cannot be stored."""


def pack(
    model: Pathname,
    runtime: str = "litert",
    cpu: Optional[str] = None,
    target: Optional[str] = None,
    directory: Optional[Pathname] = None,
    *,
    data: Sequence[Pathname] = (),
) -> Path:
    """Returns the packed weights of a model for a stock runtime, and packs them if they are not there.

    runtime is "litert" (model is a .tflite file), "executorch" (a .pte file, and data are its .ptd files) or
    "litert-lm" (a .litertlm or .task bundle). cpu is a level that xpwc pack --cpu has, and target another machine, as
    xpwc pack --target has it. By default the file is for this machine's CPU.

    The result is a read-only file in directory, by default $XDG_CACHE_HOME/xpwc. Its name has the model's digest, the
    runtime's version and the layout, so a changed model has another file. For litert-lm it is a directory, which the
    engine takes as its cache_dir. Each call reads the whole model for its digest. Callers that need the same file at
    once, threads or processes, pack it once.

    Raises NothingToPack if the model needs no file, and Error with the tool's words if it cannot be packed.
    """
    if runtime not in EXTENSIONS:
        raise ValueError(f"runtime {runtime!r}: known are {', '.join(EXTENSIONS)}")
    if target == "arm64":
        raise Error("target 'arm64' stands for several CPUs, and a file is for one: name it, as arm64:a76", "usage")
    sources = [decoded(p) for p in (model, *data)]
    digests = [digest_of(p) for p in sources]
    parent = decoded(directory) if directory is not None else cache_directory()
    path = parent / name_of(sources[0], digests, runtime, cpu, target)
    if is_there(path):
        return path
    with locked(parent) as alone:
        if alone:
            remove_unfinished(parent)
        if not is_there(path):
            pack_into(path, sources, digests, runtime, cpu, target)
    return path


def pack_into(
    path: Path, sources: List[Path], digests: List[str], runtime: str, cpu: Optional[str], target: Optional[str]
) -> None:
    """Runs the tool in a new directory, and moves the result to its path."""
    with tempfile.TemporaryDirectory(prefix=PACKING, dir=path.parent) as work:
        packed = Path(work, path.name)
        if runtime == "litert-lm":
            packed.mkdir()
        options = [f"--for={runtime}", f"--output={packed}"]
        if runtime != "executorch" and target is None:
            options += library()
        if cpu is not None:
            options.append("--cpu=" + cpu)
        if target is not None:
            options.append("--target=" + target)
        try:
            report = run("pack", options, sources)
        except Error as error:
            # The temporary directory would be gone when the caller reads its name. The whole path is not searched for:
            # the tool's words are UTF-8, and str(packed) depends on the locale.
            raise Error(str(error).replace(Path(work).name + "/", ""), error.kind) from None
        nothing = report.get("nothing_packed")
        if nothing:
            raise NothingToPack(f"{sources[0]}: {nothing}", "nothing_to_pack")
        if [f["sha256"] for f in report["packed_for"]["files"]] != digests:
            raise SourceChanged(f"{sources[0]} changed while it was packed", "source_changed")
        try:
            os.replace(packed, path)
        except OSError:  # of a directory, where one is; without a lock another caller may have made it
            if not path.is_dir():
                raise


def is_there(path: Path) -> bool:
    """Reports whether a file is there. Raises Error if another user may have put it there."""
    try:
        owner = path.lstat().st_uid  # a link of another user could name a file of this user
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return False  # make_writable has the words for the user
    shared = path.parent.stat().st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    if shared and owner not in (0, os.geteuid()):
        made = "another user made it, and could change its answers: choose another directory"
        raise Error(f"{path}: {made}", "unsafe_file")
    return True


def remove_unfinished(directory: Path) -> None:
    """Removes the directories of processes that were killed while they packed. The caller holds the lock."""
    for unfinished in directory.glob(PACKING + "*"):
        shutil.rmtree(unfinished, ignore_errors=True)


def name_of(
    model: Path, digests: List[str], runtime: str, cpu: Optional[str], target: Optional[str]
) -> str:
    """Returns the name of a file: two files that may differ have different names."""
    here = layout()
    packer = "litert" if runtime == "litert-lm" else runtime
    machine = target if target is not None else os.uname().machine
    parts = [f"{runtime}{here.version_of(packer)}", machine]
    if cpu is not None:
        parts.append(cpu)
    elif target is None:
        parts.append(here.fingerprint[:12] if packer == "executorch" else here.cpu_of(packer))
    if runtime == "litert-lm":
        # The engine finds its files by the bundle's name, size and time.
        parts.append(str(model.stat().st_mtime_ns))
    digest = digests[0] if len(digests) == 1 else hashlib.sha256("".join(digests).encode()).hexdigest()
    name = "-".join([readable(model.stem)[:64], digest[:32], *map(readable, parts), f"xpwc{__version__}"])
    return name + EXTENSIONS[runtime]


def readable(text: str) -> str:
    """Replaces what a file name should not have."""
    return re.sub(r"[^\w.+-]+", "+", text, flags=re.ASCII).lstrip(".") or "model"


def digest_of(path: Path) -> str:
    """Returns the SHA-256 of a regular file, in hexadecimal digits."""
    digest = hashlib.sha256()
    with open(path, "rb", buffering=0, opener=open_at_once) as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise Error(f"{path}: not a regular file", "malformed")
        buffer = memoryview(bytearray(1 << 20))
        while True:
            count = file.readinto(buffer)
            if not count:
                return digest.hexdigest()
            digest.update(buffer[:count])


def open_at_once(path: str, flags: int) -> int:
    """Opens a file, also a pipe that no process writes to: without O_NONBLOCK that waits for a writer."""
    return os.open(path, flags | os.O_NONBLOCK)


def cache_directory() -> Path:
    """Returns the user's directory for files of packed weights."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    # The specification of XDG ignores relative paths. A relative or empty HOME would make a cache in any directory.
    if not os.path.isabs(base):
        base = os.path.join(home_directory(), ".cache")
    return Path(base, "xpwc")


def home_directory() -> str:
    """Returns the user's home directory. Raises Error if there is none, as in a container with a number for a user."""
    home = os.environ.get("HOME", "")
    if os.path.isabs(home):
        return home
    try:
        return pwd.getpwuid(os.getuid()).pw_dir
    except KeyError:
        advice = f"set HOME, or {ANOTHER_DIRECTORY}"
        raise Error(f"user {os.getuid()} has no home directory; {advice}", "not_found") from None


def make_writable(directory: Path) -> None:
    """Makes a directory. Raises Error if that fails, or if no file can be made in it."""
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        reason = "" if os.access(directory, os.W_OK | os.X_OK) else "not writable"
    except OSError as error:
        reason = error.strerror or str(error)
    if reason:
        raise Error(f"{directory}: {reason}; {ANOTHER_DIRECTORY}", "permission")


@contextlib.contextmanager
def locked(directory: Path) -> Iterator[bool]:
    """Makes a directory, and holds its lock. The system releases the lock when a process ends.

    It yields False on a file system without locks: then each caller packs, and the last rename counts. All have the
    same bytes.
    """
    make_writable(directory)
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            alone = True
        except OSError as error:
            if error.errno not in (errno.ENOLCK, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EBADF):
                raise
            alone = False
        try:
            yield alone
        finally:
            if alone:
                # A child that another thread forked has the descriptor too, and closing would leave it the lock.
                fcntl.flock(descriptor, fcntl.LOCK_UN)
    finally:
        os.close(descriptor)
