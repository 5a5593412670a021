"""Downloads wheels with pip and unpacks the files that Pairloom links against.

Usage: fetch.py FOLDER (REQUIREMENT PLATFORM MEMBERS)...

REQUIREMENT is a line of a requirements file with a hash, which pip verifies. MEMBERS are separated by commas: a file is
unpacked to FOLDER/lib, a folder (with a final slash) to FOLDER/<its last name>. Exit codes: 130 if interrupted, after
removing FOLDER; 3 if pip failed, after its own message. At most one wheel is on the disk at a time.
"""

import os
import shutil
import signal
import subprocess
import sys
import zipfile

NEEDED_BYTES = 1_200_000_000
PIP_FAILED = 3


def download(requirement, platform, into):
    os.makedirs(into)
    listed = os.path.join(into, "requirements.txt")
    with open(listed, "w", encoding="utf-8") as file:
        file.write(requirement + "\n")
    command = [sys.executable, "-m", "pip", "download", "--require-hashes", "--requirement", listed, "--no-deps"]
    # The libraries do not depend on the version of Python. With a fixed version, every Python downloads the same wheel.
    command += ["--only-binary=:all:", "--implementation=cp", "--python-version=311", "--platform=" + platform]
    command += ["--dest=" + into, "--no-cache-dir", "--disable-pip-version-check", "--no-input"]
    if not sys.stderr.isatty():
        command.append("--quiet")
    # Temporary files of pip are on the disk whose free space was checked, and are removed with FOLDER.
    environment = dict(os.environ, TMPDIR=into, PIP_REQUIRE_VIRTUALENV="0")
    subprocess.run(command, env=environment, check=True, stdin=subprocess.DEVNULL, stdout=sys.stderr)
    return next(os.path.join(into, name) for name in os.listdir(into) if name.endswith(".whl"))


def unpack(wheel, member, folder):
    with zipfile.ZipFile(wheel) as archive:
        inside = [name for name in archive.namelist() if name == member or name.startswith(member) and member[-1] == "/"]
        if not inside:
            sys.exit(f"error: no `{member}` in {os.path.basename(wheel)}")
        top = os.path.dirname(member.rstrip("/"))
        for name in inside:
            if name.endswith("/"):
                continue
            below = os.path.relpath(name, top)
            target = os.path.join(folder, below if member.endswith("/") else os.path.join("lib", below))
            os.makedirs(os.path.dirname(target), exist_ok=True)
            with archive.open(name) as source, open(target, "wb") as copy:
                shutil.copyfileobj(source, copy, 1 << 20)


def main(folder, wheels):
    os.makedirs(folder)
    free = shutil.disk_usage(folder).free
    if free < NEEDED_BYTES:
        sys.exit(f"error: {free / 1e9:.1f} GB free in `{folder}`, wanted {NEEDED_BYTES / 1e9:.1f} GB to unpack in")
    for requirement, platform, members in wheels:
        print("xtask: fetching " + requirement.split()[0], file=sys.stderr)
        parcel = os.path.join(folder, "wheel")
        wheel = download(requirement, platform, parcel)
        for member in members.split(","):
            unpack(wheel, member, folder)
        shutil.rmtree(parcel)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    arguments = sys.argv[2:]
    try:
        main(sys.argv[1], [arguments[at : at + 3] for at in range(0, len(arguments), 3)])
    except KeyboardInterrupt:
        shutil.rmtree(sys.argv[1], ignore_errors=True)
        sys.exit(130)
    except subprocess.CalledProcessError:
        sys.exit(PIP_FAILED)
    except OSError as error:
        sys.exit(f"error: {error}")
