"""Builds the packages and looks into them: python tests/packages.py FOLDER [FOLDER ...].

Not a test: building fetches the build tool from a package index.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path


def check(project: Path) -> list[str]:
    """What is wrong with the wheel of this project."""
    with tempfile.TemporaryDirectory() as folder:
        command = [
            sys.executable,
            "-m",
            "pip",
            "wheel",
            "--quiet",
            "--no-deps",
            "-w",
            folder,
            str(project),
        ]
        subprocess.run(command, check=True)
        (wheel,) = Path(folder).glob("*.whl")
        with zipfile.ZipFile(wheel) as archive:
            names = set(archive.namelist())
    inside = {name for name in names if ".dist-info/" not in name}
    source = project / "src"
    expected = {
        file.relative_to(source).as_posix()
        for file in source.rglob("*")
        if file.is_file() and "__pycache__" not in file.parts and "egg-info" not in str(file)
    }
    faults = [f"{wheel.name}: {name} is missing" for name in sorted(expected - inside)]
    faults += [f"{wheel.name}: {name} should not be in it" for name in sorted(inside - expected)]
    if not any(name.endswith("/py.typed") for name in inside):
        faults.append(f"{wheel.name}: no py.typed")
    if not any(name.endswith("LICENSE") for name in names):
        faults.append(f"{wheel.name}: no licence")
    print(f"{wheel.name}: {len(inside)} files")  # noqa: T201  this is a script
    return faults


if __name__ == "__main__":
    found = [fault for folder in sys.argv[1:] for fault in check(Path(folder))]
    sys.exit("\n".join(found) or None)
