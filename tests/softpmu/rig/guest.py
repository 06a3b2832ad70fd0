"""One run of a guest: an initrd of the files that it needs, QEMU without acceleration, and what came back."""

import io
import os
import re
import signal
import stat
import subprocess
import tarfile
import time

QEMU = "qemu-system-x86_64"
COMMAND_LINE = "console=ttyS0 panic=-1 quiet mitigations=off nokaslr tsc=reliable rdinit=/init"


class Initrd:
    """A cpio archive ("newc", Documentation/driver-api/early-userspace/buffer-format.rst)."""

    def __init__(self):
        self.entries = {}

    def folder(self, path):
        parent = os.path.dirname(path)
        if parent:
            self.folder(parent)
        self.entries.setdefault(path, (stat.S_IFDIR | 0o755, b""))

    def add(self, path, content, mode=0o755):
        path = path.lstrip("/")
        self.folder(os.path.dirname(path)) if os.path.dirname(path) else None
        self.entries[path] = (stat.S_IFREG | mode, content)

    def add_file(self, path, source):
        with open(source, "rb") as file:
            self.add(path, file.read())

    def add_program(self, path, source):
        """With the libraries that it is linked with, at the places where its loader looks."""
        self.add_file(path, source)
        listed = subprocess.run(["ldd", source], capture_output=True, text=True, timeout=30, check=False).stdout
        for library in re.findall(r"(/\S+) \(0x", listed):
            if library.lstrip("/") not in self.entries:
                self.add_file(library, os.path.realpath(library))

    def write(self, path):
        with open(path, "wb") as file:
            for number, (name, (mode, content)) in enumerate(sorted(self.entries.items()), 1):
                file.write(self.entry(number, name, mode, content))
            file.write(self.entry(0, "TRAILER!!!", 0, b""))

    @staticmethod
    def entry(number, name, mode, content):
        fields = [number, mode, 0, 0, 1, 0, len(content), 0, 0, 0, 0, len(name) + 1, 0]
        header = b"070701" + b"".join(b"%08X" % field for field in fields) + name.encode() + b"\0"
        header += b"\0" * (-len(header) % 4)
        return header + content + b"\0" * (-len(content) % 4)


class Outcome:
    def __init__(self, console, files, seconds, timed_out):
        self.console = console
        self.files = files  # name: bytes
        self.seconds = seconds
        self.timed_out = timed_out


def boot(kernel, initrd, work, seconds_max, cpu="Skylake-Client"):
    """Runs until the guest powers off. What it wrote to its second serial port is a tar archive."""
    returned = os.path.join(work, "returned.tar")
    command = [
        QEMU, "-name", "softpmu", "-accel", "tcg,thread=multi", "-cpu", cpu, "-smp", "2", "-m", "1024", "-nodefaults",
        "-no-user-config", "-display", "none", "-no-reboot", "-nic", "none", "-serial", "stdio",
        "-serial", f"file:{returned}", "-kernel", kernel.vmlinux, "-initrd", initrd, "-append", COMMAND_LINE]
    begin = time.monotonic()
    timed_out = False
    # A session of its own: no signal of the terminal, and none to anybody else.
    qemu = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                            start_new_session=True)
    try:
        console, errors = qemu.communicate(timeout=seconds_max)
    except subprocess.TimeoutExpired:
        timed_out = True
        qemu.send_signal(signal.SIGKILL)
        console, errors = qemu.communicate()
    except BaseException:
        qemu.kill()
        qemu.wait()
        raise
    seconds = time.monotonic() - begin
    # What an emulated CPU lacks is no news.
    console += b"".join(line for line in errors.splitlines(keepends=True) if b"TCG doesn't support" not in line)
    return Outcome(console.decode("utf-8", "replace").replace("\r\n", "\n"), read_tar(returned), seconds, timed_out)


def read_tar(path):
    files = {}
    try:
        with open(path, "rb") as file, tarfile.open(fileobj=io.BytesIO(file.read())) as archive:
            for member in archive:
                if member.isfile():
                    files[os.path.basename(member.name)] = archive.extractfile(member).read()
    except (OSError, tarfile.TarError, EOFError):
        pass  # of a guest that did not come to its end
    return files
