#!/usr/bin/env python3
"""Checks the includes of every room against the table in cmake/Room.cmake.

usage: layers.py SOURCE_DIR

Prints one line per offence, "file:line: what", and exits 1 if there is any. Rules:
  1. a room includes only itself and the rooms that its PTARMIGAN_ALLOW_<room> line names (test code may include
     every room, a room never includes test code or benchmarks);
  2. <room>/internal/ is included by that room (and its tests, also those in a guest, and fuzzers) only;
  3. a room's own headers are included from the root ("room/file.h"), and the file exists;
  4. public headers of the rooms in NO_THIRD_PARTY include only the standard library, Linux and our own headers.
"""

import os
import re
import sys

TABLE = "cmake/Room.cmake"
# Rooms whose public headers show no library to those who include them.
NO_THIRD_PARTY = {"model", "hw", "decode", "unwind", "query", "symbolize", "elf"}
SOURCE_SUFFIXES = (".h", ".cc", ".c")
INCLUDE = re.compile(r'^\s*#\s*include\s*(?:"([^"]+)"|<([^>]+)>)')
ALLOW = re.compile(r"^set\(PTARMIGAN_ALLOW_(\w+)\s*([^)]*)\)", re.MULTILINE)

# C, POSIX and Linux headers that public headers may use; C++ headers have no suffix.
SYSTEM_HEADERS = re.compile(
    r"^(sys|linux|asm|bits|netinet|arpa|net)/[\w./-]+\.h$"
    r"|^(assert|ctype|dirent|dlfcn|elf|endian|errno|fcntl|inttypes|limits|link|math|poll|pthread|sched|setjmp|signal"
    r"|stdarg|stddef|stdint|stdio|stdlib|string|time|unistd|wait)\.h$")


def read_table(source_dir):
    with open(os.path.join(source_dir, TABLE), encoding="utf-8") as table:
        rooms = {room: set(allowed.replace('"', " ").split())
                 for room, allowed in ALLOW.findall(table.read())}
    if not rooms:
        raise SystemExit(f"{TABLE}: no PTARMIGAN_ALLOW_<room> line")
    for room, allowed in sorted(rooms.items()):
        unknown = allowed - rooms.keys()
        if unknown:
            raise SystemExit(f"{TABLE}: room '{room}' allows unknown {sorted(unknown)}")
    return rooms


def find_cycle(rooms):
    """A list of rooms that leads back to its first one, or nothing."""
    done = set()

    def visit(room, path):
        if room in path:
            return path[path.index(room):] + [room]
        if room in done:
            return None
        for allowed in sorted(rooms[room]):
            cycle = visit(allowed, path + [room])
            if cycle:
                return cycle
        done.add(room)
        return None

    for room in sorted(rooms):
        cycle = visit(room, [])
        if cycle:
            return cycle
    return None


def sources_of(source_dir, folder):
    for directory, folders, names in os.walk(os.path.join(source_dir, folder)):
        folders[:] = sorted(f for f in folders if f not in ("node_modules", "build", "dist"))
        for name in sorted(names):
            if name.endswith(SOURCE_SUFFIXES):
                yield os.path.relpath(os.path.join(directory, name), source_dir)


def room_of_test(path, rooms):
    """tests/<room>/... belongs to a room; tests/support, tests/fuzz and others to none."""
    parts = path.split("/")
    return parts[1] if len(parts) > 2 and parts[1] in rooms else None


class Scan:
    def __init__(self, source_dir, rooms):
        self.source_dir = source_dir
        self.rooms = rooms
        self.offences = []
        self.files = 0

    def offence(self, path, line, what):
        self.offences.append(f"{path}:{line}: {what}")

    def scan_file(self, path, owner):
        self.files += 1
        with open(os.path.join(self.source_dir, path), encoding="utf-8") as source:
            for number, line in enumerate(source, 1):
                match = INCLUDE.match(line)
                if not match:
                    continue
                if match.group(1) is not None:
                    self.check_quoted(path, number, owner, match.group(1))
                else:
                    self.check_angled(path, number, owner, match.group(2))

    def check_quoted(self, path, number, owner, included):
        target = included.split("/")[0] if "/" in included else None
        in_test_code = path.startswith(("tests/", "bench/"))
        if target in self.rooms:
            if owner is not None and not in_test_code and target != owner \
                    and target not in self.rooms[owner]:
                self.offence(path, number,
                             f"room '{owner}' may not include room '{target}' ({included})")
            if included.startswith(f"{target}/internal/") and not self.may_see_internals(path, owner, target):
                self.offence(path, number, f"{included} is private to room '{target}'")
            if not included.endswith(".pb.h") \
                    and not os.path.exists(os.path.join(self.source_dir, included)) \
                    and not self.is_generated(included):
                self.offence(path, number, f"{included} does not exist")
        elif target in ("tests", "bench"):
            if not in_test_code:
                self.offence(path, number, f"room '{owner}' may not include test code ({included})")
        elif target is None and not in_test_code and owner is not None:
            self.offence(path, number,
                         f'"{included}": headers are included from the root ("{owner}/{included}")')
        elif owner in NO_THIRD_PARTY and not in_test_code and self.is_public_header(path, owner):
            self.offence(path, number, f"public header of '{owner}' includes third-party {included}")

    def check_angled(self, path, number, owner, included):
        if included.split("/")[0] in self.rooms and "/" in included \
                and os.path.exists(os.path.join(self.source_dir, included)):
            self.offence(path, number, f'<{included}>: our own headers are included with quotes')
            return
        if owner not in NO_THIRD_PARTY or path.startswith(("tests/", "bench/")) \
                or not self.is_public_header(path, owner):
            return
        is_standard = "." not in included and "/" not in included
        if not is_standard and not SYSTEM_HEADERS.match(included):
            self.offence(path, number, f"public header of '{owner}' includes third-party <{included}>")

    def is_generated(self, included):
        """A header that a room's build makes: named in its CMakeLists.txt."""
        lists = os.path.join(self.source_dir, included.split("/")[0], "CMakeLists.txt")
        if not os.path.exists(lists):
            return False
        with open(lists, encoding="utf-8") as text:
            return os.path.basename(included) in text.read()

    @staticmethod
    def is_public_header(path, owner):
        return path.endswith(".h") and not path.startswith(f"{owner}/internal/")

    @staticmethod
    def may_see_internals(path, owner, target):
        return owner == target or path.startswith(("tests/fuzz/", "tests/softpmu/", "bench/"))


def scan(source_dir):
    rooms = read_table(source_dir)
    result = Scan(source_dir, rooms)
    cycle = find_cycle(rooms)
    if cycle:
        result.offence(TABLE, 1, "cycle: " + " -> ".join(cycle))
    for room in sorted(rooms):
        for path in sources_of(source_dir, room):
            result.scan_file(path, room)
    for folder in ("tests", "bench"):
        for path in sources_of(source_dir, folder):
            if path.startswith("tests/programs/"):
                continue  # programs that are profiled, not part of the project's code
            result.scan_file(path, room_of_test(path, rooms))
    return result


def main():
    if len(sys.argv) != 2:
        raise SystemExit("usage: layers.py SOURCE_DIR")
    result = scan(sys.argv[1])
    for line in result.offences:
        print(line)
    print(f"layers: {result.files} files, {len(result.offences)} offences")
    return 1 if result.offences or result.files == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
