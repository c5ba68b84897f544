"""The preloaded library that gives every fsync one fixed latency: build it, run under it.

A shared disk's own sync time moves tenfold within a minute; a ratio under synchronous=FULL is measured under the
shim or not at all.
"""

import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import attrs

SOURCE = Path(__file__).with_name("fsync_shim.c")


@attrs.frozen
class Unavailable:
    """There is no shim on this machine; `reason` is for people."""

    reason: str


def cache_folder() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "shardline"


def build_shim(folder: Path | None = None) -> Path | Unavailable:
    """Compile the shim once per version of its source.

    Args:
        folder: Where the library is kept; the user's cache folder by default.
    Returns:
        The library's path, or why there is none.
    """
    if not sys.platform.startswith("linux"):
        return Unavailable(f"preloading is only done on Linux, not on {sys.platform}")
    compiler = shutil.which("cc")
    if compiler is None:
        return Unavailable("no C compiler: cc is not on the PATH")
    folder = cache_folder() if folder is None else folder
    target = folder / f"fsync_shim-{hashlib.sha256(SOURCE.read_bytes()).hexdigest()[:16]}.so"
    if target.exists():
        return target
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    fresh = target.with_suffix(f".{os.getpid()}")
    command = [compiler, "-O2", "-Wall", "-shared", "-fPIC", "-o", str(fresh), str(SOURCE)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        return Unavailable(f"cc failed: {done.stderr.strip()}")
    # Another process may be building the same library: whoever is last wins, nobody loads half a file.
    fresh.replace(target)
    return target


def shim_environment(shim: Path, fsync_us: int, base: Mapping[str, str]) -> dict[str, str]:
    """The variables of a child process in which each sync takes `fsync_us` microseconds.

    Args:
        shim: What `build_shim` returned.
        fsync_us: Latency of one fsync or fdatasync, microseconds, >= 0.
        base: The variables to start from, `os.environ` as a rule; unchanged.
    """
    others = [entry for entry in base.get("LD_PRELOAD", "").split(":") if entry and entry != str(shim)]
    return {**base, "LD_PRELOAD": ":".join([str(shim), *others]), "FSYNC_US": str(fsync_us)}


def restart_under_shim(fsync_us: int) -> Unavailable | None:
    """Start the running program anew under the shim; returns None in the program that runs under it."""
    shim = build_shim()
    if isinstance(shim, Unavailable):
        return shim
    wanted = shim_environment(shim, fsync_us, os.environ)
    if wanted != dict(os.environ):
        sys.stdout.flush()
        os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], wanted)
    return None
