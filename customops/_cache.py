"""Where just-in-time builds are kept, and whether anybody else could have put a library there.

Opening a library runs its code. So the folder, every file in it and every folder above have to be this user's, or root's,
and nobody else may be able to write to them or to rename them.
"""

import os
import pwd
import stat
from pathlib import Path


def folder() -> Path:
    """CUSTOMOPS_JIT_CACHE; or customops/ in torch's TORCH_EXTENSIONS_DIR, in XDG_CACHE_HOME, in ~/.cache.

    Raises:
        RuntimeError: none of these is set, and this user has no home.
    """
    if named := os.environ.get("CUSTOMOPS_JIT_CACHE"):
        return Path(named).absolute()
    base = os.environ.get("TORCH_EXTENSIONS_DIR") or os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base).absolute() / "customops"


def who_else_may_write(root: Path, *files: Path) -> str | None:
    """None if only this user and root can have written what is there; otherwise whose or what it is, for a message.

    Args:
        root: the cache, without symbolic links.
        files: in the cache, folders or files. Those that are not there are nobody's.
    """
    for path in (*reversed(root.parents), root, *files):
        try:
            status = path.lstat()
        except FileNotFoundError:
            continue
        if status.st_uid not in (0, os.geteuid()):
            return f"{path} belongs to {_name(status.st_uid)}"
        if stat.S_ISLNK(status.st_mode):
            return f"{path} is a symbolic link"
        # A folder above, such as /tmp, may be everybody's if it is sticky: what is in there cannot be renamed by others.
        above = path in root.parents
        shared = status.st_mode & (stat.S_IWOTH if above else stat.S_IWOTH | stat.S_IWGRP)
        if shared and not (above and status.st_mode & stat.S_ISVTX):
            return f"others may write to {path} (mode {stat.S_IMODE(status.st_mode):o}; chmod go-w {path})"
    return None


def _name(uid: int) -> str:
    try:
        return f"{pwd.getpwuid(uid).pw_name} (user {uid})"
    except KeyError:
        return f"user {uid}"
