"""Run by `nox -s build` in a clean environment with one of our wheels: import it, run its README, list its names."""

import contextlib
import importlib
import importlib.metadata
import importlib.util
import io
import re
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path


def main(distribution: str) -> None:
    # The command's own distribution has the bare name.
    name = "mosaic_tpu." + (distribution.removeprefix("mosaic-tpu").removeprefix("-") or "cli")
    package = importlib.import_module(name)
    folder = Path(package.__file__).parent
    if not folder.is_relative_to(sys.prefix):
        sys.exit(f"{name} came from {folder}, not from its wheel")
    if not (folder / "py.typed").is_file():
        sys.exit(f"{name} has no py.typed: type checkers would ignore its annotations")
    if not package.__all__:
        sys.exit(f"{name} has no public names")
    if not any(str(file).endswith("licenses/LICENSE") for file in importlib.metadata.files(distribution)):
        sys.exit(f"the wheel of {distribution} carries no licence")
    printed = run_readme(distribution)
    run_commands(distribution)
    if distribution == "mosaic-tpu-builder":
        if importlib.util.find_spec("jax") is not None:
            sys.exit("jax is installed beside the builder: a dependency brings it")
        if "module" not in printed:
            sys.exit("the builder's README shows no kernel being emitted: that is the proof that it needs no jax")
    print(f"{distribution} {importlib.metadata.version(distribution)}, alone: {name} has", *sorted(package.__all__))


def run_readme(distribution: str) -> str:
    """Run the examples in the README that the wheel carries, and return what they print."""
    readme = importlib.metadata.metadata(distribution).get_payload()
    printed = io.StringIO()
    names = {"__name__": "readme"}
    with contextlib.redirect_stdout(printed):
        for example in re.findall(r"^```python\n(.*?)^```$", readme, re.MULTILINE | re.DOTALL):
            try:
                exec(compile(example, "README.md", "exec"), names)
            except Exception as error:
                if not _wants_an_extra(error):
                    raise
    return printed.getvalue()


def run_commands(distribution: str) -> None:
    """Run the commands in that README, in a folder with the files that it shows, and look at how they end."""
    readme = importlib.metadata.metadata(distribution).get_payload()
    with tempfile.TemporaryDirectory() as folder:
        for name, text in re.findall(r'^```\w+ title="(\S+)"\n(.*?)^```$', readme, re.MULTILINE | re.DOTALL):
            Path(folder, name).write_text(text, encoding="utf-8")
        for block in re.findall(r"^```console\n(.*?)^```$", readme, re.MULTILINE | re.DOTALL):
            for step in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
                command, _, shown = step.partition("\n")
                program, *arguments = shlex.split(command)
                ended = re.search(r"^\[exit code (\d+)\]$", shown, re.MULTILINE)
                wanted = int(ended[1]) if ended else 0
                done = subprocess.run(
                    [str(Path(sys.prefix, "bin", program)), *arguments], cwd=folder, capture_output=True, text=True
                )
                if done.returncode != wanted:
                    sys.exit(f"{command} ended with {done.returncode} and not {wanted}: {done.stderr}")
                if not done.stdout.strip():
                    sys.exit(f"{command} printed nothing")


def _wants_an_extra(error: Exception) -> bool:
    """Whether the error says that the example needs JAX or the simulator, which are extras and not installed."""
    if isinstance(error, ModuleNotFoundError):
        return error.name == "jax"
    return "pip install mosaic-tpu-sim" in str(error) and importlib.util.find_spec("mosaic_tpu.sim") is None


if __name__ == "__main__":
    main(sys.argv[1])
