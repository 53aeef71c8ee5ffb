"""Build the package, install it into a clean environment, and use it outside the checkout: `make package-test`.

Everything is installed through constraints.txt. The environment and the built files are in build/package.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
CONSTRAINTS = ROOT / "constraints.txt"
NEEDED = (  # in the wheel: what is read at run time, and no module imports
    "vtrace/py.typed",
    "vtrace/faithfulness/published.csv",
    "vtrace/viewer/source/page.html",
    "vtrace/viewer/source/main.js",
    "vtrace/serve/static/index.html",
    "vtrace/triage/source/page.html",
    "vtrace/triage/source/triage.js",
    "vtrace/pinhole/checkpoint_smollm2/trained.safetensors",
    "vtrace/pinhole/checkpoint_smollm2/config.json",
    *(
        f"vtrace/pinhole/{folder}/{file}"
        for folder in ("checkpoint", "checkpoint_half", "checkpoint_internvl")
        for file in ("config.json", "model.safetensors", "tokenizer.json", "chat_template.jinja")
    ),
)
MISSING = {  # a command, and what it says without the extra or package that it needs
    ("serve",): "pip install 'vtrace-attribution[serve]'",
    ("explain", "--dtype", "int4"): "pip install 'vtrace-attribution[quantised]'",
    ("evaluate", "--benchmark", "easy-vqa"): "pip install easy-vqa",
    ("evaluate", "--engine", "ray", "--limit", "1"): "pip install 'vtrace-attribution[ray]'",
    ("evaluate", "--benchmark", "mmstar", "--data", "rows.parquet"): "pip install pyarrow",
    ("explain", "--adapter", "nowhere"): "pip install peft",
}


def build(out: Path, *options: str) -> list[Path]:
    """Build an sdist, and a wheel from it; with --wheel, only a wheel."""
    out.mkdir(parents=True, exist_ok=True)
    environment = {**os.environ, "PIP_CONSTRAINT": str(CONSTRAINTS)}
    _run(sys.executable, "-m", "build", *options, "--outdir", out, ROOT, env=environment)
    return sorted(out.iterdir())


def check_wheel(wheel: Path) -> None:
    """What users need is in it, and nothing else."""
    with zipfile.ZipFile(wheel) as opened:
        names = set(opened.namelist())
        metadata = opened.read(next(name for name in names if name.endswith("METADATA"))).decode()
    if lost := [name for name in NEEDED if name not in names]:
        raise SystemExit(f"the wheel has no {', '.join(lost)}")
    if stray := [name for name in names if name.split("/")[0] not in ("vtrace", metadata_folder(names))]:
        raise SystemExit(f"the wheel has {stray[0]}")
    for line in ("Requires-Python: >=3.11", "License-Expression: Apache-2.0", "Provides-Extra: serve", "Project-URL: "):
        if line not in metadata:
            raise SystemExit(f"the metadata has no line {line!r}")


def metadata_folder(names: set[str]) -> str:
    return next(name.split("/")[0] for name in names if name.endswith("METADATA"))


def install(wheel: Path, place: Path) -> Path:
    """A clean environment with the wheel and what it depends on; the folder of its programs."""
    shutil.rmtree(place, ignore_errors=True)
    _run(sys.executable, "-m", "venv", place)
    pip = [place / "bin" / "python", "-m", "pip", "install", "--quiet", "--constraint", CONSTRAINTS]
    _run(*pip, "torch")  # first and alone: it has to be the build for CPUs that constraints.txt allows
    _run(*pip, wheel)
    return place / "bin"


def use(programs: Path) -> None:
    """As a user would, in a folder that has nothing to do with the checkout."""
    environment = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "VIRTUAL_ENV")}
    environment |= {"HF_HUB_OFFLINE": "1", "COLUMNS": "120"}
    with tempfile.TemporaryDirectory() as folder:

        def vtrace(*arguments: str) -> subprocess.CompletedProcess[str]:
            command = [programs / "vtrace", *arguments]
            return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)

        def succeed(*arguments: str) -> str:
            done = vtrace(*arguments)
            if done.returncode:
                raise SystemExit(f"vtrace {' '.join(arguments)}: {done.stderr}")
            return done.stdout

        code = "import vtrace; print(vtrace.__file__); print(vtrace.example().answer)"
        command = [programs / "python", "-c", code]
        asked = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=True)
        home, answer = asked.stdout.splitlines()
        if not Path(home).is_relative_to(programs.parent):
            raise SystemExit(f"vtrace was imported from {home}, not from the environment")
        print(succeed("--version").strip())
        succeed("methods")
        succeed("models")
        outputs = ("--html", "a.html", "--figure", "a.pdf", "--json", "a.json", "--quiet")
        print(succeed("explain", "--target", "answer", *outputs))
        explained = json.loads(Path(folder, "a.json").read_text("utf-8"))
        written = [Path(folder, name).stat().st_size for name in ("a.html", "a.pdf")]
        if explained["answer"] != answer or not all(written):
            raise SystemExit(f"the embedded example was answered with {explained['answer']!r}, not {answer!r}")
        (Path(folder) / "rows.parquet").write_bytes(b"PAR1")
        for arguments, words in MISSING.items():
            done = vtrace(*arguments)
            if done.returncode not in (2, 3) or done.stderr.count("\n") != 1 or words not in done.stderr:
                raise SystemExit(f"vtrace {' '.join(arguments)} ends with {done.returncode}: {done.stderr}")
            print(done.stderr.strip())


def _run(*command: object, env: dict[str, str] | None = None) -> None:
    print("+", *command, file=sys.stderr)
    subprocess.run(list(map(str, command)), check=True, env=env, stdout=sys.stderr)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--work", type=Path, default=ROOT / "build" / "package", help="folder for what is made")
    work = parser.parse_args().work.resolve()
    shutil.rmtree(work / "dist", ignore_errors=True)
    sdist, wheel = sorted(build(work / "dist"), key=lambda place: place.suffix != ".gz")
    for place in (sdist, wheel):
        print(f"built {place.name}, {place.stat().st_size / 1e6:.1f} MB")
    check_wheel(wheel)
    use(install(wheel, work / "venv"))
    print("the package works outside the checkout")


if __name__ == "__main__":
    main()
