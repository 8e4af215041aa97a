"""Paths inside a folder that lead nowhere else: no link is followed, and only plain files of bounded size are read."""

from __future__ import annotations

import errno
import fcntl
import os
import re
import secrets
import stat
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from feddecorr.errors import UserError

MIB, GIB = 1 << 20, 1 << 30

BOUNDS = {".json": 64 * MIB, ".jsonl": 4 * GIB, ".safetensors": 16 * GIB}
"""The most bytes of a file that is read or written, by its ending."""

OTHER_BOUND = MIB
"""The same of every other file."""

TEMPORARY = re.compile(r"\.(?P<name>.+)\.[0-9a-f]{16}\.tmp")
"""How a file is called before it is whole; nobody can guess the name, and it says whose it is."""

PASSING = "feddecorr-tmp-"
"""How folders of temporary files begin: what is in them need not survive anything."""

FOLDER = os.O_RDONLY | os.O_DIRECTORY
ANYTHING = os.O_NOFOLLOW | os.O_NONBLOCK
"""A link that takes a file's place is not followed, and a pipe that does is not waited for."""

KINDS = {
    stat.S_IFLNK: "a symbolic link",
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFDIR: "a folder",
    stat.S_IFREG: "a file",
}
A_FILE, A_FOLDER = frozenset({stat.S_IFREG}), frozenset({stat.S_IFDIR})


class HeldError(UserError):
    """Another process has the lock."""


@dataclass(frozen=True, order=True)
class InnerPath:
    """A path below a root, reached from it folder by folder through descriptors.

    The root is the user's word and may itself lie behind links. Whatever is below it may be a stranger's: there, links
    and special files are refused by name. Nothing stays open, so that it travels to other processes as a value.
    """

    root: Path
    parts: tuple[str, ...] = ()

    def __truediv__(self, name: str) -> InnerPath:
        return InnerPath(self.root, (*self.parts, name))

    def __str__(self) -> str:
        return str(self.path)

    @property
    def path(self) -> Path:
        """The path, for messages and for libraries that open files themselves."""
        return self.root.joinpath(*self.parts)

    @property
    def name(self) -> str:
        """The last part."""
        return self.parts[-1]

    @property
    def bound(self) -> int:
        """The most bytes that a file of this name may have."""
        return BOUNDS.get(os.path.splitext(self.name)[1], OTHER_BOUND)  # noqa: PTH122 - it is no path yet

    @property
    def unfinished(self) -> str | None:
        """The name that this was to have when it is whole, if it was left by a process that was killed."""
        found = TEMPORARY.fullmatch(self.name)
        return found and found["name"]

    def exists(self) -> bool:
        """Return whether there is a file or a folder."""
        return self.stat() is not None

    def stat(self) -> os.stat_result | None:
        """Return what the system knows of the file or folder; None if there is none."""
        try:
            if not self.parts:
                return self.root.stat()
            with named(self), self._folder() as folder:
                return self._look(folder, A_FILE | A_FOLDER)
        except (FileNotFoundError, NotADirectoryError):
            return None

    def refuse_unreadable(self) -> None:
        """Refuse an entry that cannot be read, because of its kind or size."""
        found = self.stat()
        if found is not None and not self.unfinished:
            self._refuse_unless(found, A_FILE)
            self._refuse_size(found.st_size)

    def names(self) -> list[str]:
        """Return what a folder holds, in order; nothing if it is not there."""
        try:
            with self._opened() as folder:
                return sorted(os.listdir(folder))  # noqa: PTH208 - it is a descriptor
        except FileNotFoundError:
            return []

    def tree(self) -> Iterator[InnerPath]:
        """Yield all files below a folder; links and special files are refused."""
        for name in self.names():
            inner = self / name
            found = inner.stat()
            if found is None:
                continue
            if stat.S_ISDIR(found.st_mode):
                yield from inner.tree()
            else:
                yield inner

    @contextmanager
    def open(self) -> Iterator[int]:
        """Give a descriptor from which the file can be read: a plain one, no larger than its kind may be."""
        with named(self), self._folder() as folder:
            file = self._open_file(folder, os.O_RDONLY)
        try:
            self._refuse_size(os.fstat(file).st_size)
            yield file
        finally:
            os.close(file)

    def read(self) -> bytes:
        """Return the content of the file."""
        with self.open() as descriptor, open(descriptor, "rb", closefd=False) as file:
            content = file.read(self.bound + 1)
        self._refuse_size(len(content))
        return content

    def make(self) -> None:
        """Let the folder be there, and those above it."""
        with self._opened(make=True):
            pass

    def write(self, content: bytes) -> None:
        """Replace the file in one step: whatever happens, the old or the new one is there, whole."""
        self._refuse_size(len(content))
        with named(self), self._folder() as folder:
            self._look_if_there(folder)
            replace(folder, self.name, content, lasting=self._lasts)

    def append(self, content: bytes) -> None:
        """Write to the end of the file, and bring it to the disk."""
        with named(self), self._folder() as folder:
            descriptor = self._open_file(folder, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
            with os.fdopen(descriptor, "ab") as file:
                self._refuse_size(os.fstat(descriptor).st_size + len(content))
                file.write(content)
                file.flush()
                if self._lasts:
                    os.fsync(descriptor)

    def keep_as(self, other: InnerPath) -> None:
        """Let a file that is only ever replaced also be there under another name; a copy where it cannot have two."""
        temporary = temporary_name(other.name)
        with self._folder() as mine, other._folder() as theirs:
            self._look(mine)
            other._look_if_there(theirs)
            try:
                os.link(self.name, temporary, src_dir_fd=mine, dst_dir_fd=theirs, follow_symlinks=False)
            except OSError:
                other.write(self.read())
                return
            os.replace(temporary, other.name, src_dir_fd=theirs, dst_dir_fd=theirs)
            with suppress(FileNotFoundError):  # where the target is that very file already, nothing was renamed
                os.unlink(temporary, dir_fd=theirs)

    def move_to(self, other: InnerPath) -> None:
        """Give the file another name, in place of what had it."""
        with self._folder() as mine, other._folder() as theirs:
            self._look(mine)
            other._look_if_there(theirs)
            os.replace(self.name, other.name, src_dir_fd=mine, dst_dir_fd=theirs)

    def remove(self) -> None:
        """Remove the file, if it is there."""
        with suppress(FileNotFoundError), self._folder() as folder:
            self._look(folder)
            os.unlink(self.name, dir_fd=folder)

    def remove_if_empty(self) -> None:
        """Remove the folder, unless something is in it."""
        with suppress(FileNotFoundError), self._folder() as folder:
            try:
                os.rmdir(self.name, dir_fd=folder)
            except OSError as error:
                if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                    raise

    @contextmanager
    def held(self, refusal: str = "another process has it") -> Iterator[Callable[[], bool]]:
        """Hold a lock by the file, which is created if necessary; `HeldError` at once where another process does.

        The function it yields says whether the lock is still the one that others would meet: it may have been removed.
        """
        with named(self), self._folder() as folder:
            descriptor = self._open_file(folder, os.O_RDWR | os.O_CREAT)
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise HeldError(refusal) from error

            def is_there() -> bool:
                found = self.stat()
                return found is not None and os.path.samestat(os.fstat(descriptor), found)

            yield is_there
        finally:
            os.close(descriptor)

    def _open_file(self, folder: int, flags: int) -> int:
        self._look_if_there(folder)  # a device is not even opened
        descriptor = os.open(self.name, flags | ANYTHING, 0o666, dir_fd=folder)
        try:
            self._refuse_unless(os.fstat(descriptor), A_FILE)
        except BaseException:
            os.close(descriptor)
            raise
        return descriptor

    def _look(self, folder: int, kinds: frozenset[int] = A_FILE) -> os.stat_result:
        found = os.stat(self.name, dir_fd=folder, follow_symlinks=False)
        self._refuse_unless(found, kinds)
        return found

    def _look_if_there(self, folder: int) -> None:
        with suppress(FileNotFoundError):
            self._look(folder)

    @property
    def _lasts(self) -> bool:
        return not passes(self.root)

    @contextmanager
    def _folder(self) -> Iterator[int]:
        """Open the folder in which this is."""
        with InnerPath(self.root, self.parts[:-1])._opened() as folder:
            yield folder

    @contextmanager
    def _opened(self, *, make: bool = False) -> Iterator[int]:
        """Open the folder that this is, and let it be made on the way."""
        if make:
            self.root.mkdir(parents=True, exist_ok=True)
        folder = os.open(self.root, FOLDER)
        try:
            for depth, name in enumerate(self.parts, start=1):
                if make:
                    with suppress(FileExistsError):
                        os.mkdir(name, dir_fd=folder)
                try:
                    inner = os.open(name, FOLDER | os.O_NOFOLLOW, dir_fd=folder)
                except OSError as error:
                    if error.errno in (errno.ELOOP, errno.ENOTDIR):
                        InnerPath(self.root, self.parts[:depth])._look(folder, A_FOLDER)
                    raise
                os.close(folder)
                folder = inner
            yield folder
        finally:
            os.close(folder)

    def _refuse_unless(self, found: os.stat_result, kinds: frozenset[int]) -> None:
        kind = stat.S_IFMT(found.st_mode)
        if kind not in kinds:
            wanted = " or ".join(KINDS[each] for each in sorted(kinds, reverse=True))
            why = f"no link inside of {self.root} is followed; " if kind == stat.S_IFLNK else ""
            raise UserError(
                f"{self} is {KINDS.get(kind, 'something else')}, not {wanted}: {why}remove it, or put {wanted} there"
            )

    def _refuse_size(self, size: int) -> None:
        if size > self.bound:
            raise UserError(f"{self} has {size} bytes, more than the {self.bound} that such a file may have")


def passes(folder: Path) -> bool:
    """Return whether a folder is for temporary files, of this process or of another: nothing in it need survive."""
    return str(folder).startswith(f"{tempfile.gettempdir()}{os.sep}{PASSING}")


def temporary_name(name: str) -> str:
    """Return what a file is called before it is whole."""
    return f".{name}.{secrets.token_hex(8)}.tmp"


def replace(folder: int, name: str, content: bytes, *, lasting: bool = True) -> None:
    """Put a file into an open folder in one step; a lasting one is brought to the disk before it has its name."""
    temporary = temporary_name(name)
    try:
        with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666, dir_fd=folder), "wb") as file:
            file.write(content)
            file.flush()
            if lasting:
                os.fsync(file.fileno())
        os.replace(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:  # a full disk must not be filled by half a file
        with suppress(FileNotFoundError):
            os.unlink(temporary, dir_fd=folder)
        raise
    if lasting:
        os.fsync(folder)


@contextmanager
def named(path: Path | InnerPath) -> Iterator[None]:
    """Say which file it was that the system refused to write."""
    try:
        yield
    except OSError as error:
        error.filename = str(path)
        raise
