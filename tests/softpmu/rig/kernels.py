"""Kernels for the guest, from Debian's packages and without root: downloaded by apt (which checks them), unpacked into a
cache, and a module built against their headers.

    <cache>/<release>/root/         the packages' files
    <cache>/<release>/vmlinux       the kernel as an ELF file, which QEMU starts without a decompressor
    <cache>/<release>/complete      is there when all of it is
"""

import glob
import lzma
import os
import re
import shutil
import struct
import subprocess

FETCH_SECONDS_MAX = 400
BUILD_SECONDS_MAX = 120


class Absent(Exception):
    """Something that the tests need is not on this machine; the text says what."""


def run(command, seconds_max, **options):
    """Output of a command; Absent with the last words of its errors if it fails."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=seconds_max, check=False, **options)
    except FileNotFoundError as error:
        raise Absent(f"{command[0]} is not installed") from error
    except subprocess.TimeoutExpired as error:
        raise Absent(f"{command[0]} took more than {seconds_max} s") from error
    if done.returncode != 0:
        lines = (done.stderr.strip() or done.stdout.strip() or "no message").splitlines()
        raise Absent(f"{' '.join(command[:2])}: {lines[-1]}")
    return done.stdout


def release_of(package_prefix):
    """The newest kernel that a meta package stands for: "6.1.0-57-amd64"."""
    depends = run(["apt-cache", "depends", package_prefix], 60)
    found = re.search(r"Depends: linux-image-(\S+)", depends)
    if not found:
        raise Absent(f"apt knows no package {package_prefix}")
    return found.group(1)


def dependencies(package, pattern):
    return re.findall(rf"Depends: ({pattern})", run(["apt-cache", "depends", package], 60))


def unpack_vmlinux(image, output):
    """Takes the kernel out of a bzImage (Documentation/x86/boot.rst, "payload_offset")."""
    with open(image, "rb") as file:
        content = file.read()
    if content[0x202:0x206] != b"HdrS":
        raise Absent(f"{image} is no bzImage")
    setup_sectors = content[0x1f1] or 4
    offset, size = struct.unpack_from("<II", content, 0x248)
    begin = (setup_sectors + 1) * 512 + offset
    payload = content[begin:begin + size]
    if payload[:6] == b"\xfd7zXZ\0":
        kernel = lzma.LZMADecompressor().decompress(payload)
    elif payload[:4] == b"\x28\xb5\x2f\xfd":
        done = subprocess.run(["zstd", "-dc"], input=payload[:-4], capture_output=True, timeout=60, check=True)
        kernel = done.stdout
    else:
        raise Absent(f"{image} is compressed in a way that is not known here")
    with open(output, "wb") as file:
        file.write(kernel)


def relocate_headers(root):
    """The headers' Makefile includes another one by its installed path."""
    for makefile in glob.glob(f"{root}/usr/src/linux-headers-*/Makefile"):
        with open(makefile, encoding="utf-8") as file:
            text = file.read()
        with open(makefile, "w", encoding="utf-8") as file:
            file.write(re.sub(r"^include /usr/src/", "include ../", text, flags=re.MULTILINE))


def newest_cached(cache, pattern):
    complete = [os.path.basename(os.path.dirname(path)) for path in glob.glob(f"{cache}/{pattern}/complete")]
    return max(complete, key=lambda name: [int(n) for n in re.findall(r"\d+", name)], default=None)


class Kernel:
    """One release, complete in the cache. `release` None: the one that is there, else what linux-image-amd64 stands for."""

    def __init__(self, cache, release=None):
        release = release or newest_cached(cache, "6.1.*-amd64") or release_of("linux-image-amd64")
        self.release = release
        self.folder = os.path.join(cache, release)
        self.root = os.path.join(self.folder, "root")
        self.vmlinux = os.path.join(self.folder, "vmlinux")
        if not os.path.exists(os.path.join(self.folder, "complete")):
            self.fetch()

    @property
    def busybox(self):
        return os.path.join(self.root, "bin/busybox")

    def fetch(self):
        headers = f"linux-headers-{self.release}"
        packages = [f"linux-image-{self.release}", headers, "busybox-static"]
        packages += dependencies(headers, r"linux-(?:headers|kbuild)-\S+")
        # Two that fetch at a time work in folders of their own; the first to finish gives the kernel its name.
        work = f"{self.folder}.{os.getpid()}"
        shutil.rmtree(work, ignore_errors=True)
        os.makedirs(f"{work}/packages")
        try:
            run(["apt-get", "download", *packages], FETCH_SECONDS_MAX, cwd=f"{work}/packages")
            for package in sorted(os.listdir(f"{work}/packages")):
                run(["dpkg", "-x", f"{work}/packages/{package}", f"{work}/root"], FETCH_SECONDS_MAX)
            shutil.rmtree(f"{work}/packages")
            unpack_vmlinux(f"{work}/root/boot/vmlinuz-{self.release}", f"{work}/vmlinux")
            # Nothing of these is needed any more.
            shutil.rmtree(f"{work}/root/lib/modules/{self.release}/kernel", ignore_errors=True)
            shutil.rmtree(f"{work}/root/boot", ignore_errors=True)
            relocate_headers(f"{work}/root")
            with open(f"{work}/complete", "w", encoding="utf-8"):
                pass
            if not os.path.exists(self.folder):
                os.rename(work, self.folder)
        finally:
            shutil.rmtree(work, ignore_errors=True)

    def build_module(self, source, work):
        """The module's file, built anew only if a source changed."""
        if os.path.isdir(work) and up_to_date(source, work):
            return os.path.join(work, "module/softpmu.ko")
        shutil.rmtree(work, ignore_errors=True)
        os.makedirs(work)
        for name in SOURCES:
            path = os.path.join(source, name)
            if os.path.isdir(path):
                shutil.copytree(path, os.path.join(work, name))
            else:
                shutil.copy2(path, os.path.join(work, name))
        headers = f"{self.root}/usr/src/linux-headers-{self.release}"
        # Types of the kernel's own would be taken out of a vmlinux that the headers do not have.
        run(["make", "-C", headers, f"M={os.path.abspath(work)}/module", "CONFIG_DEBUG_INFO_BTF_MODULES=", "modules"],
            BUILD_SECONDS_MAX)
        return os.path.join(work, "module/softpmu.ko")


SOURCES = ("softpmu_abi.h", "module")


def up_to_date(source, work):
    module = os.path.join(work, "module/softpmu.ko")
    if not os.path.exists(module):
        return False
    built = os.path.getmtime(module)
    paths = [os.path.join(source, "softpmu_abi.h")] + glob.glob(os.path.join(source, "module/*"))
    return all(os.path.getmtime(path) < built for path in paths)
